import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import { forkOf } from "./fork-support.ts";
import { numbered, putText, seed, stageAll } from "./large-support.ts";
import {
  type BranchStub,
  finished,
  freshBranch,
  freshBucket,
  inline,
  put,
  startOpenCommit,
} from "./support.ts";

const HOUR_MS = 60 * 60 * 1000;
/** How far the clock is ahead of the host's; milliseconds. */
let aheadMs = 0;

beforeEach(() => {
  aheadMs = 0;
  const { now } = Date;
  vi.spyOn(Date, "now").mockImplementation(() => now() + aheadMs);
});

afterEach(() => {
  vi.restoreAllMocks();
});

function contentOf(text: string) {
  const { digest, size } = inline(text);
  return { digest, size };
}

/** A branch whose objects have times of their own, with the file `a`; then an hour passes. */
async function touchable(bucket = freshBucket()): Promise<BranchStub> {
  const branch = await freshBranch(bucket);
  await branch.settings.change({ modified: "file" });
  await put(branch, "a", "same");
  aheadMs += HOUR_MS;
  return branch;
}

/** When HEAD's `a` was modified, as reads and listings of all kinds say. */
async function times(branch: BranchStub): Promise<number[]> {
  const read = await branch.files.read({ path: "a" });
  const lists = await Promise.all([
    branch.files.list({ prefix: "", limit: 10 }),
    branch.files.list({ prefix: "", limit: 10, delimiter: "/" }),
  ]);
  return [
    read.ok ? read.modifiedAt : Number.NaN,
    ...lists.map((list) => {
      const [entry] = list.ok ? list.entries : [];
      return entry && "modifiedAt" in entry ? (entry.modifiedAt ?? Number.NaN) : Number.NaN;
    }),
  ];
}

async function head(branch: BranchStub): Promise<string | null> {
  const status = await branch.lifecycle.status();
  return status.ok ? status.head : null;
}

const PUT_SAME = {
  "a PUT": (branch: BranchStub) => branch.files.put({ path: "a", content: inline("same"), attributes: {} }),
  "a commit of many": async (branch: BranchStub) => {
    return await branch.files.commit({ operations: [{ put: "a", ...contentOf("same") }] });
  },
  "an open commit": async (branch: BranchStub) => {
    const openCommit = await startOpenCommit(branch);
    await branch.files.put({ path: "a", content: inline("same"), attributes: {}, openCommit });
    return await branch.openCommits.finish({ openCommit });
  },
};

describe("the same bytes put again, where an object has a time of its own", () => {
  test.each(
    Object.entries(PUT_SAME),
  )("by %s show that time at HEAD, and make no commit", async (_, write) => {
    const branch = await touchable();
    const [before = 0] = await times(branch);
    const commit = await head(branch);
    const done = await write(branch);
    expect(done).toMatchObject({ ok: true, commit: null });
    const [now = 0, ...listed] = await times(branch);
    expect(now).toBeGreaterThanOrEqual(before + HOUR_MS);
    expect(listed).toEqual([now, now]);
    expect(await head(branch)).toBe(commit);
    // What is about a commit keeps the commit's time.
    const version = commit ?? "";
    expect(await branch.files.read({ path: "a", commit: version })).toMatchObject({ modifiedAt: before });
    const view = { openCommit: version };
    expect(await branch.files.read({ path: "a", ...view })).toMatchObject({ modifiedAt: before });
    expect(await branch.files.list({ prefix: "", limit: 10, ...view })).toMatchObject({
      entries: [{ path: "a", modifiedAt: before }],
    });
    expect(await branch.files.versions({ prefix: "", limit: 10 })).toMatchObject({
      entries: [{ path: "a", modifiedAt: before }],
    });
    // An open commit shows HEAD where it has nothing itself.
    const openCommit = await startOpenCommit(branch);
    expect(await branch.files.read({ path: "a", openCommit })).toMatchObject({ modifiedAt: now });
  });

  test("answer with that time, as a read does", async () => {
    const branch = await touchable();
    const done = await PUT_SAME["a PUT"](branch);
    const [now = 0] = await times(branch);
    expect(done).toMatchObject({ modifiedAt: now });
    expect(now).toBeGreaterThan(Date.now() - HOUR_MS);
  });

  test("change nothing that is shown where the time is the branch's", async () => {
    const branch = await touchable();
    await branch.settings.change({ modified: "branch" });
    const status = await branch.lifecycle.status();
    const modifiedAt = status.ok && status.modifiedAt;
    expect(await PUT_SAME["a PUT"](branch)).toMatchObject({ commit: null, modifiedAt });
    expect(await branch.files.read({ path: "a" })).toMatchObject({ modifiedAt });
    // It was not written down either.
    await branch.settings.change({ modified: "file" });
    expect(await branch.files.read({ path: "a" })).toMatchObject({ modifiedAt });
  });

  test("are forgotten with what they were: other bytes, or a deletion, have the time of their commit", async () => {
    const branch = await touchable();
    await PUT_SAME["a PUT"](branch);
    aheadMs += HOUR_MS;
    await put(branch, "a", "other");
    const status = await branch.lifecycle.status();
    expect((await times(branch))[0]).toBe(status.ok && status.modifiedAt);
    await branch.files.commit({ operations: [{ delete: "a" }] });
    aheadMs += HOUR_MS;
    await put(branch, "a", "same");
    const after = await branch.lifecycle.status();
    expect((await times(branch))[0]).toBe(after.ok && after.modifiedAt);
  });

  test("have their time in a large commit, too, and in no branch that is made of theirs", async () => {
    const bucket = freshBucket();
    const branch = await touchable(bucket);
    const [before = 0] = await times(branch);
    await seed(branch);
    const large = await stageAll(branch, [
      { put: "a", ...contentOf("same") },
      ...numbered("n", MAX_COMMIT_OPERATIONS).map((path, n) => putText(path, n)),
    ]);
    await finished(branch, large);
    expect((await times(branch))[0]).toBeGreaterThanOrEqual(before + HOUR_MS);
    aheadMs += HOUR_MS;
    const { branch: fork } = await forkOf(bucket);
    await fork.settings.change({ modified: "file" });
    const made = await fork.lifecycle.status();
    expect((await times(fork))[0]).toBe(made.ok && made.modifiedAt);
  });

  test("come back with their version when a later one is erased", async () => {
    const branch = await touchable();
    await PUT_SAME["a PUT"](branch);
    const [touched] = await times(branch);
    aheadMs += HOUR_MS;
    const later = await put(branch, "a", "later");
    expect(await branch.erasures.erase({ versions: [{ path: "a", version: later ?? "" }] })).toMatchObject({
      ok: true,
    });
    expect(await times(branch)).toEqual([touched, touched, touched]);
  });
});
