import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { ulid } from "ulid";
import { afterAll, expect, vi } from "vitest";
import type { ArchivedCommit } from "../../../protocol/archives.ts";
import { parseBucketName } from "../../../protocol/names.ts";
import { RootStore } from "../../../worker/branch/forks/root-store.ts";
import { GenerationStore } from "../../../worker/branch/tree/generation-store.ts";
import type { LifecycleRule } from "../../../worker/core/lifecycle-rules.ts";
import { type Env, readConfig } from "../../../worker/env.ts";
import { exec, type Scenario, testLoops } from "../objects/loop-tests.ts";
import { killBranch } from "../pipeline/kill.ts";
import { forkOf } from "./fork-support.ts";
import { crashAt, numbered, stageAll } from "./large-support.ts";
import { api, contentOf, erase, idOf, pathOf, withCopies, write } from "./on-loan-support.ts";
import {
  type BranchStub,
  begin as beginMultipart,
  blobNameIn,
  branchOf,
  chunked,
  commitFiles,
  committed,
  DAY_MS,
  freshBranch,
  freshBucket,
  inline,
  put,
  startOpenCommit,
} from "./support.ts";

/** Whether a query finds nothing. */
const isEmpty = (bucket: string, text: string) => async () =>
  (await exec(branchOf(bucket), text)).length === 0;

const changed: { cachesBlobs: boolean }[] = [];

afterAll(() => {
  for (const config of changed) config.cachesBlobs = false;
});

/** From now on objects write down which copies of blobs are to be purged, as on Cloudflare. */
async function cachesBlobs(branch: BranchStub): Promise<void> {
  await runInDurableObject(branch, (object) => {
    const read = readConfig((object as unknown as { env: Env }).env);
    if (!read.ok) throw new Error(read.problem);
    const config: { cachesBlobs: boolean } = read.config;
    config.cachesBlobs = true;
    changed.push(config);
  });
}

/** The alarm rings, whether one stands or not: then a pass of history GC may follow soon after another one. */
async function ring(branch: BranchStub): Promise<void> {
  await runInDurableObject(branch, (_, { storage }) => storage.setAlarm(Date.now() + DAY_MS));
  await runDurableObjectAlarm(branch);
}

const LONG = { timeout: 20_000 };

/** Waits until a loop is not at work, since it has failed or has done what it can. */
async function stands(branch: BranchStub, loop: string): Promise<void> {
  const stateOf = async () => (await branch.admin.loops())?.loops.find(({ name }) => name === loop)?.state;
  await expect.poll(stateOf, LONG).not.toBe("running");
}

/** A branch that is to keep one commit of three, of which an export keeps all. */
async function exported() {
  const bucket = freshBucket();
  const branch = await freshBranch(bucket);
  const said = { attributes: {}, annotation: { message: "the first" } };
  const first = committed(await branch.files.put({ path: "a", content: inline("1"), ...said })) ?? "";
  for (const text of ["2", "3"]) await put(branch, "a", text);
  const begun = await branch.exports.begin();
  if (!begun.ok) throw new Error(begun.reason);
  await branch.settings.change({ keep: { commits: 1 } });
  const isDone = async () => !(await branchOf(bucket).files.read({ path: "a", commit: first })).ok;
  return { bucket, branch, first, id: begun.export, isDone };
}

/** A commit is let go of that is held alone: `hold` names it, until what it returns is called. */
function named(
  what: string,
  place: string,
  hold: (branch: BranchStub, commit: string) => Promise<() => Promise<unknown>>,
): Scenario {
  return {
    loop: "history GC",
    what,
    wokenBy: [place],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const letGo = await hold(branch, (await put(branch, "a", "1")) ?? "");
      for (const text of ["2", "3"]) await put(branch, "a", text);
      await branch.settings.change({ keep: { commits: 1 } });
      return {
        name: bucket,
        begin: () => ring(branch).then(letGo),
        isDone: isEmpty(bucket, "SELECT 1 FROM held"),
      };
    },
  };
}

/** A fork goes, to whose parent `fill` has written: `hold` keeps it until what it returns is called. */
function deleted(
  what: string,
  place: string,
  hold: (fork: BranchStub) => Promise<() => Promise<unknown>>,
  fill: (parent: BranchStub) => Promise<unknown> = async () => {},
): Scenario {
  return {
    loop: "forks",
    what,
    wokenBy: [place],
    wakeOnly: true,
    async prepare() {
      const from = freshBucket();
      await fill(await freshBranch(from));
      const { bucket, branch } = await forkOf(from);
      const begin = await hold(branch);
      return { name: bucket, begin, isDone: isEmpty(bucket, "SELECT 1 FROM forks") };
    },
  };
}

/** A rule is to look at files again, which it has done once. */
function ruled(
  what: string,
  place: string,
  { rule, begin }: { rule: Partial<LifecycleRule>; begin: (branch: BranchStub) => Promise<unknown> },
): Scenario {
  return {
    loop: "lifecycle scan",
    what,
    wokenBy: [place],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      for (const path of ["a", "b"]) await put(branch, path);
      await branch.files.setTags({ path: "b", tags: TAGS });
      await branch.settings.change({ lifecycle: { rules: [{ ...LOGS, ...rule }], key: "operator" } });
      const passes = "UPDATE lifecycle_scans SET due = 1";
      await exec(branch, passes);
      const isDone = isEmpty(bucket, "SELECT 1 FROM lifecycle_scans WHERE due = 1");
      return { name: bucket, begin: () => begin(branch), passes, isDone };
    },
  };
}

const LOGS: LifecycleRule = {
  id: "r",
  enabled: true,
  prefix: "logs/",
  filter: "prefix",
  expiration: { days: 1 },
};

const TAGS = [["k", "v"]] as const;

/** Begins with a revert whose work fails until `resume` is called. */
async function stuckRevert(branch: BranchStub, commit: string) {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  const { resume } = crashAt({ statement: /UPDATE reverting/, nth: 1 });
  const begun = await branch.openCommits.revert({ commit });
  if (!begun.ok) throw new Error(begun.reason);
  await stands(branch, "large commit");
  return { openCommit: begun.openCommit, resume };
}

/** An import of a branch of one commit. */
async function beginImport(branch: BranchStub) {
  const settings = { public: false, cors: null, writer: null, modified: null, emptyOnly: false };
  const head = { createdAt: 1, head: 1, floor: 1, settings };
  const begun = await branch.imports.begin({ archive: "0".repeat(64), branch: head });
  if (!begun.ok) throw new Error(begun.reason);
  return begun.import;
}

const SUBSCRIBER = { uid: "u", pipeline: "no-such-pipeline" };
const FORK = { fork: "f", bucket: "fork.repo" };

const SCENARIOS: readonly Scenario[] = [
  {
    loop: "outbox",
    what: "a subscriber is to hear of a commit",
    wokenBy: ["Outbox.ring"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      await branch.feed.subscribe(SUBSCRIBER);
      return { name: bucket, begin: () => put(branch, "a"), isDone: isEmpty(bucket, "SELECT 1 FROM outbox") };
    },
  },
  {
    loop: "outbox",
    what: "the catalogue is to hear of an erasure",
    wokenBy: ["tellNodes"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const version = (await put(branch, "a")) ?? "";
      await put(branch, "a", "2");
      return {
        name: bucket,
        begin: () => branch.erasures.erase({ versions: [{ path: "a", version }] }),
        isDone: isEmpty(bucket, "SELECT 1 FROM outbox"),
      };
    },
  },
  {
    loop: "housekeeping",
    what: "an upload is forgotten after its lease",
    wokenBy: ["UploadStore.open"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      return {
        name: bucket,
        begin: () => branch.uploads.open({}),
        passes: "UPDATE uploads SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM uploads"),
      };
    },
  },
  {
    loop: "shared uploads",
    what: "no result names an upload that several outcomes were to share",
    wokenBy: ["UploadStore.open"],
    async prepare() {
      const bucket = freshBucket();
      const branch = branchOf(bucket);
      await branch.output.claim({ pipeline: "nobody", uid: ulid() });
      return {
        name: bucket,
        begin: () => branch.uploads.open({ lease: `shared.${ulid()}.1` }),
        // The time of its id is one of long ago.
        passes: "UPDATE uploads SET id = replace(id, '.01', '.00')",
        isDone: isEmpty(bucket, "SELECT 1 FROM uploads WHERE lost = 0"),
      };
    },
  },
  {
    loop: "housekeeping",
    what: "an export ends whose reader is gone",
    wokenBy: ["ExportStore.open"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      await put(branch, "a");
      return {
        name: bucket,
        begin: () => branch.exports.begin(),
        passes: "UPDATE exports SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM exports"),
      };
    },
  },
  {
    loop: "blob reaper",
    what: "the blobs of an upload are deleted that was given up",
    wokenBy: ["PendingDeletionStore.add"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const opened = await branch.uploads.open({});
      if (!opened.ok) throw new Error(opened.reason);
      const { upload } = opened;
      await branch.uploads.add({ upload, contents: [chunked("one", ["b/1"])] });
      return {
        name: bucket,
        begin: () => branch.uploads.abort({ upload }),
        passes: "UPDATE pending_deletions SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM pending_deletions"),
      };
    },
  },
  {
    loop: "cache purge",
    what: "blobs of an erased version are deleted",
    wokenBy: ["CachePurgeStore.add"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      await cachesBlobs(branch);
      const content = chunked("one", [await blobNameIn(branch, "one")]);
      const version = committed(await branch.files.put({ path: "a", content, attributes: {} })) ?? "";
      await branch.erasures.erase({ versions: [{ path: "a", version }] });
      return {
        name: bucket,
        begin: async () => {
          await exec(branch, "UPDATE pending_deletions SET due = 1");
          await ring(branch);
        },
        isDone: isEmpty(
          bucket,
          "SELECT 1 FROM pending_deletions UNION ALL SELECT 1 FROM cache_purges WHERE due < last",
        ),
      };
    },
  },
  {
    loop: "orphan scan",
    what: "somebody wants orphans removed",
    wokenBy: ["SweepStore.ask"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      return {
        name: bucket,
        begin: () => branch.admin.sweep({ remove: true }),
        isDone: isEmpty(bucket, "SELECT 1 FROM sweeps WHERE due IS NOT NULL"),
      };
    },
  },
  {
    loop: "large commit",
    what: "an open commit of many operations is applied",
    wokenBy: ["ApplyingStore.begin"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const operations = numbered("f/", 10_001).map((path) => ({ delete: path }));
      const openCommit = await stageAll(branch, operations);
      return {
        name: bucket,
        begin: () => branch.openCommits.finish({ openCommit }),
        isDone: isEmpty(bucket, "SELECT 1 FROM applying"),
      };
    },
  },
  {
    loop: "large commit",
    what: "a commit is reverted",
    wokenBy: ["ApplyingStore.beginRevert"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const commit = (await put(branch, "a")) ?? "";
      await put(branch, "b");
      return {
        name: bucket,
        begin: () => branch.openCommits.revert({ commit }),
        isDone: async () => {
          const page = await branchOf(bucket).files.list({ prefix: "", limit: 10, after: "" });
          return page.ok && page.entries.length === 1;
        },
      };
    },
  },
  {
    loop: "forks",
    what: "a fork is copied",
    wokenBy: ["ForkStore.startCopying"],
    async prepare() {
      const bucket = freshBucket();
      const from = freshBucket();
      await commitFiles(await freshBranch(from), { puts: { a: "1", b: "2" } });
      return {
        name: bucket,
        begin: () => branchOf(bucket).lifecycle.fork({ parent: from }),
        isDone: async () => {
          const found = await branchOf(bucket).lifecycle.inspect();
          return found.ok && found.fork?.ready === true;
        },
      };
    },
  },
  {
    loop: "fork check",
    what: "a fork is asked whether it still has the bytes of an erased version",
    wokenBy: ["ForkHoldStore.add"],
    async prepare() {
      const { from, versions } = await withCopies(1);
      return {
        name: from,
        begin: () => erase(from, versions),
        passes: "UPDATE fork_hold_asks SET due = 1",
        isDone: isEmpty(from, "SELECT 1 FROM fork_hold_asks WHERE due = 1"),
      };
    },
  },
  {
    loop: "lifecycle scan",
    what: "a rule is to delete what will have expired",
    wokenBy: ["LifecycleScanStore.plan"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      await put(branch, "logs/a");
      return {
        name: bucket,
        begin: () => branch.settings.change({ lifecycle: { rules: [LOGS], key: "operator" } }),
        passes: `UPDATE commits SET createdAt = createdAt - ${9 * DAY_MS}; UPDATE lifecycle_scans SET due = 1`,
        isDone: async () => {
          const page = await branchOf(bucket).files.list({ prefix: "", limit: 10, after: "" });
          return page.ok && page.entries.length === 0;
        },
      };
    },
  },
  {
    loop: "history GC",
    what: "fewer commits are kept",
    wokenBy: ["SettingsStore.save"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const first = await put(branch, "a", "1");
      for (const text of ["2", "3"]) await put(branch, "a", text);
      return {
        name: bucket,
        begin: () => branch.settings.change({ keep: { commits: 1 } }),
        isDone: async () => !(await branchOf(bucket).files.read({ path: "a", commit: first ?? "" })).ok,
      };
    },
  },
  {
    loop: "history GC",
    what: "an export ends that kept commits",
    wokenBy: ["ExportStore.close"],
    async prepare() {
      const { bucket, branch, id, isDone } = await exported();
      return { name: bucket, begin: () => branch.exports.end({ export: id }), isDone };
    },
  },
  {
    loop: "imports",
    what: "an import is given up",
    wokenBy: ["ImportStore.giveUp"],
    async prepare() {
      const bucket = freshBucket();
      const branch = branchOf(bucket);
      const begun = await beginImport(branch);
      return {
        name: bucket,
        begin: () => branch.imports.abort({ import: begun }),
        isDone: isEmpty(bucket, "SELECT 1 FROM imports"),
      };
    },
  },
  {
    loop: "history GC",
    what: "an export ends since a commit that it may have read is redacted",
    wokenBy: ["ExportStore.endAll"],
    wakeOnly: true,
    async prepare() {
      const { bucket, branch, first, isDone } = await exported();
      return { name: bucket, begin: () => branch.history.redact({ commit: first, key: "operator" }), isDone };
    },
  },
  {
    loop: "history GC",
    what: "an export is forgotten whose reader is gone, before an alarm rings for that",
    wokenBy: ["ExportStore.forgetOld"],
    wakeOnly: true,
    async prepare() {
      const { bucket, branch, isDone } = await exported();
      // An upload that ends at once has housekeeping done.
      const begin = () =>
        exec(branch, "UPDATE exports SET due = 1").then(() => beginMultipart(branch, { ttlMs: 0 }));
      return { name: bucket, begin, isDone };
    },
  },
  {
    loop: "history GC",
    what: "a subscriber needs less",
    wokenBy: ["#neededLess"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const first = (await put(branch, "a", "1")) ?? "";
      for (const text of ["2", "3"]) await put(branch, "a", text);
      await branch.feed.subscribe(SUBSCRIBER);
      await branch.settings.change({ keep: { commits: 1 } });
      return {
        name: bucket,
        begin: () => branch.feed.setMark({ uid: "u", generation: 1, seq: 3, job: null, starts: [] }),
        isDone: async () => !(await branchOf(bucket).files.read({ path: "a", commit: first })).ok,
      };
    },
  },
  {
    loop: "history GC",
    what: "a commit replaces what was there",
    wokenBy: ["Ledger.conclude"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const first = (await put(branch, "a", "1")) ?? "";
      await branch.settings.change({ keep: { commits: 1 } });
      return {
        name: bucket,
        begin: () => put(branch, "a", "2").then(() => runDurableObjectAlarm(branch)),
        isDone: async () => !(await branchOf(bucket).files.read({ path: "a", commit: first })).ok,
      };
    },
  },
  {
    loop: "history GC",
    what: "the branch is deleted",
    wokenBy: ["GenerationStore.end"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      await put(branch, "a");
      return {
        name: bucket,
        begin: () => branch.lifecycle.destroy(),
        isDone: isEmpty(bucket, "SELECT 1 FROM files"),
      };
    },
  },
  {
    loop: "history GC",
    what: "a branch comes out of an archive that had given commits back",
    wokenBy: ["ImportStore.made"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = branchOf(bucket);
      const begun = { import: await beginImport(branch) };
      const commit: ArchivedCommit = [1, ulid(1), 1, 0, 0, null, null, null, null, 0];
      const came = await api(branch).imports.commits({ ...begun, after: 0, commits: [commit] });
      if (!came.ok) throw new Error(JSON.stringify(came));
      return {
        name: bucket,
        begin: async () => {
          const counts = { commits: 1, tags: 0, files: 0 };
          const finished = await branch.imports.finish({ ...begun, counts });
          if (!finished.ok) throw new Error(JSON.stringify(finished));
        },
        isDone: isEmpty(bucket, "SELECT 1 FROM horizons WHERE marked < horizon"),
      };
    },
  },
  named("the day of a tag is over that was deleted", "UntaggedStore.forgetOld", async (branch, commit) => {
    await branch.tags.create({ name: "t", commit, force: false });
    await branch.tags.delete({ name: "t" });
    return () => exec(branch, "UPDATE untagged SET due = 1").then(() => ring(branch));
  }),
  named("an input starts after a commit no more", "StartStore.tell", async (branch, commit) => {
    const starts = [{ commit, generation: 1, seq: 1 }];
    await branch.feed.subscribe({ ...SUBSCRIBER, starts });
    await branch.feed.setMark({ uid: "u", generation: 1, seq: 3, job: null, starts });
    return () => branch.feed.subscribe({ ...SUBSCRIBER, starts: [] });
  }),
  named("an open commit ends that began with a commit", "#endUploads", async (branch) => {
    const openCommit = await startOpenCommit(branch);
    return () => branch.openCommits.abort({ openCommit });
  }),
  named("a fork of a commit is gone", "RootStore.drop", async (branch, commit) => {
    await branch.forks.addRoot({ ...FORK, commit });
    return () => branch.forks.dropRoot(FORK);
  }),
  deleted("a fork is deleted", "ForkStore.purgeEnded", async (fork) => () => fork.lifecycle.destroy()),
  deleted("a fork of a deleted fork is gone", "RootStore.drop", async (fork) => {
    await fork.forks.addRoot(FORK);
    await fork.lifecycle.destroy();
    return () => fork.forks.dropRoot(FORK);
  }),
  deleted("a subscriber needs a deleted fork no more", "#neededLess", async (fork) => {
    await fork.feed.subscribe(SUBSCRIBER);
    await fork.lifecycle.destroy();
    return () => fork.feed.unsubscribe({ uid: "u" });
  }),
  deleted(
    "an upload lets go of what a deleted fork has of its parent",
    "Ledger.conclude",
    async (fork) => {
      const opened = await fork.uploads.open({});
      if (!opened.ok) throw new Error(opened.reason);
      const { upload } = opened;
      await fork.uploads.reserve({ upload, contents: [idOf(0)] });
      await fork.lifecycle.destroy();
      return () => fork.uploads.abort({ upload });
    },
    (parent) => write(api(parent), [{ path: pathOf(0), content: contentOf(0) }]),
  ),
  {
    loop: "forks",
    what: "a fork is deleted that can't be copied",
    wokenBy: ["ForkStore.purge"],
    wakeOnly: true,
    async prepare() {
      const [bucket, from] = [freshBucket(), freshBucket()];
      await put(await freshBranch(from), "a");
      const branch = branchOf(bucket);
      const begin = async () => {
        vi.spyOn(console, "warn").mockImplementation(() => {});
        const lost = vi.spyOn(RootStore.prototype, "find").mockReturnValue(undefined);
        await branch.lifecycle.fork({ parent: from });
        // With each try in vain the next one is later by itself.
        for (let tries = 0; tries < 5; tries++) {
          await stands(branch, "forks");
          await branch.forks.dropRoot(FORK);
        }
        await stands(branch, "forks");
        await branch.lifecycle.destroy();
        lost.mockRestore();
      };
      return { name: bucket, begin, isDone: isEmpty(bucket, "SELECT 1 FROM forks") };
    },
  },
  {
    loop: "forks",
    what: "the call that asked for a fork got no further",
    wokenBy: ["askFork"],
    wakeOnly: true,
    async prepare() {
      const [bucket, from] = [freshBucket(), freshBucket()];
      await freshBranch(from);
      const branch = branchOf(bucket);
      const begin = async () => {
        vi.spyOn(console, "warn").mockImplementation(() => {});
        vi.spyOn(GenerationStore.prototype, "reserve").mockImplementationOnce(() => {
          throw new Error("it gets no further");
        });
        const answer = await branch.lifecycle.fork({ parent: from });
        expect(answer).toEqual({ ok: false, reason: "parent-unavailable" });
        await runDurableObjectAlarm(branch);
      };
      return {
        name: bucket,
        begin,
        isDone: async () => {
          const found = await branch.lifecycle.inspect();
          return found.ok && found.fork?.ready === true;
        },
      };
    },
  },
  ruled("a first file comes under a rule", "LifecycleScanStore.expect", {
    rule: {},
    begin: (branch) => put(branch, "logs/a"),
  }),
  ruled("an old file gets the tags of a rule that waits for another one", "LifecycleScanStore.hasten", {
    rule: { prefix: "", filter: "tag", tags: TAGS, expiration: { days: 30 } },
    begin: (branch) => branch.files.setTags({ path: "a", tags: TAGS }),
  }),
  {
    loop: "lifecycle scan",
    what: "a large commit ends that a scan waited for",
    wokenBy: ["ApplyingStore.clear"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const commit = (await put(branch, "logs/a")) ?? "";
      await put(branch, "b");
      await branch.settings.change({ lifecycle: { rules: [LOGS], key: "operator" } });
      const passes = `UPDATE commits SET createdAt = createdAt - ${9 * DAY_MS}; UPDATE lifecycle_scans SET due = 1`;
      return {
        name: bucket,
        begin: async () => {
          const { resume } = await stuckRevert(branch, commit);
          await exec(branch, passes);
          await ring(branch);
          resume();
          await expect.poll(isEmpty(bucket, "SELECT 1 FROM reverting"), LONG).toBe(true);
        },
        isDone: async () => !(await branch.files.read({ path: "logs/a" })).ok,
      };
    },
  },
  {
    loop: "large commit",
    what: "a large commit is given up that fails, and a writer waits",
    wokenBy: ["ApplyingStore.clear"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const commit = (await put(branch, "a")) ?? "";
      let written: Promise<unknown> | undefined;
      return {
        name: bucket,
        begin: async () => {
          const { openCommit, resume } = await stuckRevert(branch, commit);
          written = branch.lifecycle.destroy();
          await branch.openCommits.abort({ openCommit });
          resume();
        },
        isDone: async () => {
          const { ok: isThere } = await branch.lifecycle.status();
          // Else it would wait on: the end of another one lets it through.
          await branch.openCommits.revert({ commit });
          await written;
          return !isThere;
        },
      };
    },
  },
  {
    loop: "imports",
    what: "nothing comes of an import for too long",
    wokenBy: ["ImportStore.begin"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      return {
        name: bucket,
        begin: () => beginImport(branchOf(bucket)),
        passes: "UPDATE imports SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM imports"),
      };
    },
  },
  {
    loop: "orphan scan",
    what: "an upload ends that may have left something",
    wokenBy: ["SweepStore.mark"],
    wakeOnly: true,
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const opened = await branch.uploads.open({});
      if (!opened.ok) throw new Error(opened.reason);
      return {
        name: bucket,
        begin: () => branch.uploads.abort({ upload: opened.upload, leaves: true }),
        passes: "UPDATE sweeps SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM sweeps WHERE due IS NOT NULL"),
      };
    },
  },
];

testLoops(
  {
    kind: "branch",
    stub: branchOf,
    loops: (bucket) => branchOf(bucket).admin.loops(),
    kill: (bucket) => killBranch(parseBucketName(bucket) ?? { repo: "", branch: "" }),
  },
  SCENARIOS,
);
