import { expect, vi } from "vitest";
import { OutboxDispatcher } from "../../../worker/objects/outbox.ts";
import { exec, type Scenario, testWakes } from "../objects/loop-tests.ts";
import { numbered } from "./large-support.ts";
import { withCopies } from "./on-loan-support.ts";
import {
  type BranchStub,
  begin as beginMultipart,
  branchOf,
  chunked,
  commitFiles,
  committed,
  completion,
  DAY_MS,
  freshBranch,
  freshBucket,
  inline,
  put,
  stage,
  startOpenCommit,
} from "./support.ts";

interface Given {
  /** The call that gives the work. */
  readonly begin: () => Promise<unknown>;
  /** Of the branch, if it is not the one that was asked for. */
  readonly bucket?: string;
}

interface Case extends Pick<Scenario, "what" | "wokenBy"> {
  /** Nothing is there yet of the branch of this name. */
  given(bucket: string): Promise<Given>;
}

/** A case whose work is due at once: this query finds what is left of it. */
function dueNow(loop: string, left: string, { what, wokenBy, given }: Case): Scenario {
  return { loop, what, wokenBy, wakeOnly: true, prepare: () => prepared(given, left) };
}

/** A case whose work is a row of this table, and due later. */
function dueLater(loop: string, table: string, { what, wokenBy, given }: Case): Scenario {
  const passes = `UPDATE ${table} SET due = 1`;
  const prepare = async () => ({ ...(await prepared(given, `SELECT 1 FROM ${table}`)), passes });
  return { loop, what, wokenBy, wakeOnly: true, prepare };
}

async function prepared(given: Case["given"], left: string) {
  const asked = freshBucket();
  const { begin, bucket = asked } = await given(asked);
  return { name: bucket, begin, isDone: async () => (await exec(branchOf(bucket), left)).length === 0 };
}

const OWNER = { pipeline: "no-such-pipeline", uid: "u" };

/** A branch that is the output of a pipeline. */
async function claimed(bucket: string): Promise<{ branch: BranchStub; epoch: number }> {
  const branch = branchOf(bucket);
  const answer = await branch.output.claim(OWNER);
  if (!answer.ok) throw new Error(answer.reason);
  return { branch, epoch: answer.epoch };
}

/** A branch that a pipeline reads. */
async function subscribed(bucket: string): Promise<BranchStub> {
  const branch = await freshBranch(bucket);
  await branch.feed.subscribe(OWNER);
  return branch;
}

async function openUpload(branch: BranchStub, request: { lease?: string } = {}): Promise<string> {
  const opened = await branch.uploads.open(request);
  if (!opened.ok) throw new Error(opened.reason);
  return opened.upload;
}

/** An upload that holds so many small contents. */
async function holding(branch: BranchStub, count: number) {
  const upload = await openUpload(branch);
  const contents = numbered("text ", count).map(inline);
  await branch.uploads.add({ upload, contents });
  return { upload, contents };
}

/** An import of a branch that has nothing, but for what it is set to. */
async function importing(branch: BranchStub, { emptyOnly = false }: { emptyOnly?: boolean } = {}) {
  const settings = { public: false, cors: null, writer: null, modified: null, emptyOnly };
  const head = { createdAt: 1, head: 0, floor: 0, settings };
  const begun = await branch.imports.begin({ archive: "0".repeat(64), branch: head });
  if (!begun.ok) throw new Error(begun.reason);
  const counts = { commits: 0, tags: 0, files: 0 };
  return () => branch.imports.finish({ import: begun.import, counts });
}

const DUE_IN_HOUSEKEEPING: readonly Scenario[] = [
  dueLater("housekeeping", "untagged", {
    what: "the commit of a deleted tag is kept for a day",
    wokenBy: ["UntaggedStore.keep"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      await put(branch, "a");
      await branch.tags.create({ name: "t", force: false });
      return { begin: () => branch.tags.delete({ name: "t" }) };
    },
  }),
  dueLater("housekeeping", "uploads", {
    what: "a multipart upload ends after its time",
    wokenBy: ["UploadStore.openFor"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      return { begin: () => beginMultipart(branch) };
    },
  }),
  dueLater("housekeeping", "uploads", {
    what: "a lost lease is remembered for a while",
    wokenBy: ["UploadStore.abortLease"],
    async given(bucket) {
      const { branch } = await claimed(bucket);
      return { begin: () => branch.uploads.abortLeases({ leases: ["l"] }) };
    },
  }),
  dueLater("housekeeping", "uploads", {
    what: "the upload of a lease is remembered for a while after it ended",
    wokenBy: ["UploadStore.retire"],
    async given(bucket) {
      const { branch } = await claimed(bucket);
      const upload = await openUpload(branch, { lease: "l" });
      return { begin: () => branch.uploads.trim({ uploads: [{ upload, keep: [] }] }) };
    },
  }),
  dueLater("housekeeping", "uploads", {
    what: "the uploads of a pipeline's leases end after it gave its output up",
    // UploadStore.forgetLeases, and OpenCommitStore.endOutputs, by which it runs and sets the alarm when it rests.
    wokenBy: [],
    async given(bucket) {
      const { branch } = await claimed(bucket);
      await openUpload(branch, { lease: "l" });
      return { begin: () => branch.output.release({ uid: OWNER.uid, destroy: false }) };
    },
  }),
  dueLater("housekeeping", "completions", {
    what: "a completed multipart upload is remembered for a day",
    wokenBy: ["CompletionStore.add"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      const upload = await beginMultipart(branch, { ttlMs: 9 * DAY_MS });
      const part = chunked("one", ["b/1"]);
      await branch.multipart.addPart({ upload, number: 1, content: part });
      return { begin: () => branch.multipart.complete(completion(upload, { 1: part })) };
    },
  }),
  dueLater("housekeeping", "open_commits", {
    what: "an open commit ends after its time",
    wokenBy: ["OpenCommitStore.open"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      return { begin: () => startOpenCommit(branch) };
    },
  }),
  dueLater("housekeeping", "open_commits", {
    what: "a finished open commit is remembered for a day",
    wokenBy: ["OpenCommitStore.finish"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      const openCommit = await startOpenCommit(branch, 9 * DAY_MS);
      await stage(branch, openCommit, { puts: ["a"] });
      return { begin: () => branch.openCommits.finish({ openCommit }) };
    },
  }),
];

const IN_HOUSEKEEPING: readonly Scenario[] = [
  dueNow("housekeeping", "SELECT 1 FROM files WHERE version = 0", {
    what: "the last reader goes of more news of erasures than one slice forgets",
    wokenBy: ["forgetRest"],
    async given(bucket) {
      const branch = await subscribed(bucket);
      await put(branch, "a");
      const news = `
        INSERT INTO files (gen, path, born, died, kind, digest, size, version)
        SELECT 1, value, 1, 1, 2, x'', 0, 0 FROM json_each('${JSON.stringify(numbered("f/", 1001))}')`;
      await exec(branch, news);
      return { begin: () => branch.feed.unsubscribe({ uid: OWNER.uid }) };
    },
  }),
  dueNow("housekeeping", "SELECT 1 FROM contents", {
    what: "more contents are released than the call removes",
    wokenBy: ["Ledger.conclude"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      const { upload } = await holding(branch, 250);
      return { begin: () => branch.uploads.abort({ upload }) };
    },
  }),
  dueNow("housekeeping", "SELECT 1 FROM ended", {
    what: "an upload ends that holds more than the call gives up, all of which another one holds",
    wokenBy: ["#giveUp"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      const { upload, contents } = await holding(branch, 501);
      await branch.uploads.reserve({ upload: await openUpload(branch), contents });
      return { begin: () => branch.uploads.abort({ upload }) };
    },
  }),
  dueNow("housekeeping", "SELECT 1 FROM open_commits", {
    what: "an open commit is given up",
    wokenBy: ["OpenCommitStore.end"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      const openCommit = await startOpenCommit(branch);
      return { begin: () => branch.openCommits.abort({ openCommit }) };
    },
  }),
  dueNow("housekeeping", "SELECT 1 FROM uploads", {
    what: "an open commit is finished into which a multipart upload is under way",
    wokenBy: ["#endUploads"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      const openCommit = await startOpenCommit(branch);
      await beginMultipart(branch, { openCommit });
      return { begin: () => branch.openCommits.finish({ openCommit }) };
    },
  }),
  dueNow("housekeeping", "SELECT 1 FROM open_commits", {
    what: "a pipeline takes its output anew for which something is staged",
    wokenBy: ["OpenCommitStore.endOutputs"],
    async given(bucket) {
      const { branch, epoch } = await claimed(bucket);
      const output = { uid: OWNER.uid, epoch, origin: "j", operations: [], anew: true };
      await branch.output.stage(output);
      return { begin: () => branch.output.claim(OWNER) };
    },
  }),
  dueNow("housekeeping", "SELECT 1 FROM uploads UNION ALL SELECT 1 FROM open_commits", {
    what: "a branch is deleted that has open commits and multipart uploads",
    // UploadStore.expireMultiparts and OpenCommitStore.endGeneration, always both in one transaction.
    wokenBy: [],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      await startOpenCommit(branch);
      await beginMultipart(branch);
      return { begin: () => branch.lifecycle.destroy() };
    },
  }),
];

/** What a call tells itself: the outbox does if the call can't. */
const TOLD_BY_CALLS: readonly Case[] = [
  {
    what: "the catalogue is to hear of a creation",
    wokenBy: ["Outbox.tellCatalogue"],
    async given(bucket) {
      const branch = branchOf(bucket);
      return { begin: () => branch.lifecycle.create() };
    },
  },
  {
    what: "the catalogue is to hear of a deletion",
    wokenBy: ["Outbox.tellCatalogue"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      return { begin: () => branch.lifecycle.destroy() };
    },
  },
  {
    what: "the catalogue is to hear of a fork on its way",
    wokenBy: ["Outbox.tellCatalogue"],
    async given(bucket) {
      const parent = freshBucket();
      await put(await freshBranch(parent), "a");
      const branch = branchOf(bucket);
      return { begin: () => branch.lifecycle.fork({ parent }) };
    },
  },
  {
    what: "the catalogue is to hear of a tag",
    wokenBy: ["Outbox.tellCatalogue"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      await put(branch, "a");
      return { begin: () => branch.tags.create({ name: "t", force: false }) };
    },
  },
  {
    what: "the catalogue is to hear of an import",
    wokenBy: ["Outbox.tellCatalogue"],
    async given(bucket) {
      const branch = branchOf(bucket);
      return { begin: await importing(branch) };
    },
  },
  {
    what: "the catalogue is to hear of an import, and of what it is set to",
    // Outbox.tellSettings and Outbox.tellCatalogue, in one transaction and for the same time.
    wokenBy: [],
    async given(bucket) {
      const branch = branchOf(bucket);
      return { begin: await importing(branch, { emptyOnly: true }) };
    },
  },
  {
    what: "the catalogue is to hear again of a branch",
    wokenBy: ["Outbox.tellCatalogue"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      return { begin: () => branch.admin.announce() };
    },
  },
  {
    what: "the catalogue is to hear again of a branch, and of what it is set to",
    // The same two.
    wokenBy: [],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      await branch.settings.change({ emptyOnly: true });
      return { begin: () => branch.admin.announce() };
    },
  },
  {
    what: "the catalogue is to hear of what a branch is set to",
    wokenBy: ["Outbox.tellSettings"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      return { begin: () => branch.settings.change({ emptyOnly: true }) };
    },
  },
];

const TOLD_BY_OUTBOX: readonly Case[] = [
  {
    what: "a subscriber is to hear of a deletion",
    wokenBy: ["Outbox.ring"],
    async given(bucket) {
      const branch = await subscribed(bucket);
      return { begin: () => branch.lifecycle.destroy() };
    },
  },
  {
    what: "a subscriber is to hear of the erasure of a version that had no bytes",
    wokenBy: ["Outbox.ring"],
    async given(bucket) {
      const branch = await subscribed(bucket);
      const version = (await put(branch, "a", "")) ?? "";
      await put(branch, "a", "2");
      return { begin: () => branch.erasures.erase({ versions: [{ path: "a", version }] }) };
    },
  },
  {
    what: "a subscriber is to hear of deletions that come with an erasure of nothing",
    wokenBy: ["Outbox.ring"],
    async given(bucket) {
      const branch = await subscribed(bucket);
      await put(branch, "a");
      const deletions = [{ delete: "a" }];
      return { begin: () => branch.erasures.erase({ versions: [], deletions }) };
    },
  },
  {
    what: "the catalogue is to hear that what a branch was set to is gone",
    wokenBy: ["endGeneration"],
    async given(bucket) {
      const branch = await freshBranch(bucket);
      await branch.settings.change({ emptyOnly: true });
      return { begin: () => branch.lifecycle.destroy() };
    },
  },
  {
    what: "the pipeline whose output it is is to hear that fewer commits are kept",
    wokenBy: ["tellHolder"],
    async given(bucket) {
      const { branch, epoch } = await claimed(bucket);
      for (const text of ["1", "2"]) {
        const content = inline(text);
        const { digest, size } = content;
        const operations = [{ put: "a", digest, size }];
        const output = { uid: OWNER.uid, epoch, origin: text, operations, contents: [content] };
        await branch.output.commit(output);
      }
      return { begin: () => branch.settings.change({ keep: { commits: 1 } }) };
    },
  },
  {
    what: "the parent is to hear that a fork has its bytes no more",
    wokenBy: ["#recordUnkept"],
    async given() {
      const { branch, bucket, versions, copies } = await withCopies(1);
      committed(await commitFiles(branch, { deletes: [...versions, ...copies].map(({ path }) => path) }));
      return { bucket, begin: () => branch.settings.change({ keep: { commits: 1 } }) };
    },
  },
  {
    what: "the catalogue is to hear that a fork is made",
    wokenBy: ["publishFork"],
    async given(bucket) {
      const parent = freshBucket();
      await put(await freshBranch(parent), "a");
      const branch = branchOf(bucket);
      return { begin: () => branch.lifecycle.fork({ parent }) };
    },
  },
];

/** A call that is cut off when it is about to tell what it has written down. */
async function untold(call: () => Promise<unknown>): Promise<void> {
  const spy = vi.spyOn(OutboxDispatcher.prototype, "send").mockResolvedValue(false);
  await call();
  expect(spy).toHaveBeenCalled();
  spy.mockRestore();
}

/** The same, but that the call tells nobody. */
function cutOff({ given, ...about }: Case): Case {
  return {
    ...about,
    async given(bucket) {
      const { begin } = await given(bucket);
      return { begin: () => untold(begin) };
    },
  };
}

/*
 * Wakes that no scenario needs alone:
 *
 *  - UploadStore.expireMultiparts: and
 *  - OpenCommitStore.endGeneration: one transaction, the end of a generation, always has both.
 *  - UploadStore.forgetLeases: whoever calls it ends the open commits of the job, too, which wakes the loop at once.
 *  - OpenCommitStore.reopen: the loop "large commit" calls it, and had the alarm set for itself, which looks after all that
 *    waits when it rings.
 *  - Outbox.tellCatalogue as endFork calls it: so had the loop "forks", which is at work on a fork that is on its way.
 */
testWakes({ kind: "branch", stub: branchOf, loops: (bucket) => branchOf(bucket).admin.loops() }, [
  ...DUE_IN_HOUSEKEEPING,
  ...IN_HOUSEKEEPING,
  ...TOLD_BY_CALLS.map((told) => dueLater("outbox", "outbox", cutOff(told))),
  ...TOLD_BY_OUTBOX.map((told) => dueNow("outbox", "SELECT 1 FROM outbox", told)),
]);
