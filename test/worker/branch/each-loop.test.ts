import { parseBucketName } from "../../../protocol/names.ts";
import { exec, type Scenario, testLoops } from "../objects/loop-tests.ts";
import { killBranch } from "../pipeline/kill.ts";
import { numbered, stageAll } from "./large-support.ts";
import { erase, withCopies } from "./on-loan-support.ts";
import { branchOf, chunked, commitFiles, DAY_MS, freshBranch, freshBucket, put } from "./support.ts";

/** Whether a query finds nothing. */
const isEmpty = (bucket: string, text: string) => async () =>
  (await exec(branchOf(bucket), text)).length === 0;

const SCENARIOS: readonly Scenario[] = [
  {
    loop: "outbox",
    what: "a subscriber is to hear of a commit",
    wokenBy: ["Outbox.ring"],
    async prepare() {
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      await branch.feed.subscribe({ uid: "u", pipeline: "no-such-pipeline" });
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
      const about = { id: "r", enabled: true, prefix: "logs/", filter: "prefix" } as const;
      const rules = [{ ...about, expiration: { days: 1 } }];
      return {
        name: bucket,
        begin: () => branch.settings.change({ lifecycle: { rules, key: "operator" } }),
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
      const bucket = freshBucket();
      const branch = await freshBranch(bucket);
      const first = await put(branch, "a", "1");
      for (const text of ["2", "3"]) await put(branch, "a", text);
      const begun = await branch.exports.begin();
      if (!begun.ok) throw new Error(begun.reason);
      await branch.settings.change({ keep: { commits: 1 } });
      return {
        name: bucket,
        begin: () => branch.exports.end({ export: begun.export }),
        isDone: async () => !(await branchOf(bucket).files.read({ path: "a", commit: first ?? "" })).ok,
      };
    },
  },
  {
    loop: "imports",
    what: "an import is given up",
    wokenBy: ["ImportStore.giveUp"],
    async prepare() {
      const bucket = freshBucket();
      const branch = branchOf(bucket);
      const settings = { public: false, cors: null, writer: null, modified: null, emptyOnly: false };
      const head = { createdAt: 1, head: 1, floor: 0, settings };
      const begun = await branch.imports.begin({ archive: "0".repeat(64), branch: head });
      if (!begun.ok) throw new Error(begun.reason);
      return {
        name: bucket,
        begin: () => branch.imports.abort({ import: begun.import }),
        isDone: isEmpty(bucket, "SELECT 1 FROM imports"),
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
