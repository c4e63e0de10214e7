import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { AnswerOf } from "../../../worker/branch/contract/answers.ts";
import type { OpenCommitCalls } from "../../../worker/branch/contract/open-commits.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { REST } from "../../support/suite.ts";
import { treeOf } from "./fork-support.ts";
import {
  allPaths,
  countOf,
  crashAt,
  expectRefsRight,
  goOn,
  numbered,
  pagesOf,
  putText,
  restarted,
  seed,
} from "./large-support.ts";
import {
  type BranchStub,
  branchOf,
  committed,
  drained,
  finished,
  freshBranch,
  freshBucket,
  inline,
  listed,
  put,
} from "./support.ts";

/** The statement by which each slice of a revert says how far it is. */
const SLICE = /UPDATE reverting/;

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** Begins a revert and returns what tells its end. */
async function begun(branch: BranchStub, commit: string): Promise<string> {
  const answer: AnswerOf<OpenCommitCalls["revert"]> = await branch.openCommits.revert({ commit });
  if (!answer.ok) throw new Error(`revert answered ${answer.reason}`);
  return answer.openCommit;
}

/** Reverts and returns the commit that was made. */
async function reverted(branch: BranchStub, commit: string): Promise<string | null> {
  return (await finished(branch, await begun(branch, commit))).commit;
}

/** A commit with every kind of file, and others after it that change, add and delete. */
async function prepared(): Promise<{ branch: BranchStub; target: string; tree: unknown[] }> {
  const branch = await freshBranch();
  await put(branch, "stays");
  await put(branch, "changes", "1");
  await put(branch, "goes and comes", "1");
  await put(branch, "is a file");
  await branch.files.put({ path: "attributes", content: inline("x"), attributes: { contentType: "text/x" } });
  const target =
    committed(await branch.files.commit({ operations: [{ put: "empty/", digest: "", size: 0 }] })) ?? "";
  const tree = await treeOf(branch);
  await put(branch, "changes", "2");
  await put(branch, "changes", "3");
  await put(branch, "added");
  await branch.files.put({ path: "attributes", content: inline("x"), attributes: { contentType: "text/y" } });
  await branch.files.commit({
    operations: [{ delete: "goes and comes" }, { delete: "is a file" }, { delete: "empty/" }],
  });
  await put(branch, "is a file/no more");
  await put(branch, "goes and comes", "1");
  return { branch, target, tree };
}

describe("a revert", () => {
  test("is one commit whose tree is that of the commit it goes back to, attributes and directories too", async () => {
    const { branch, target, tree } = await prepared();
    const before = await countOf(branch, "commits");
    const commit = await reverted(branch, target);
    expect(await treeOf(branch)).toEqual(tree);
    expect(await countOf(branch, "commits")).toBe(before + 1);
    expect(await branch.lifecycle.status()).toMatchObject({ head: commit });
    // What was there the same was not written again.
    expect(
      await branch.history.diff({ from: target, to: commit ?? "", after: "", limit: 100 }),
    ).toMatchObject({
      changes: [],
    });
    expect(await branch.history.commit({ commit: commit ?? "" })).toMatchObject({
      changes: { written: 4, ended: 4 },
    });
    await expectRefsRight(branch);
  });

  test("that changes attributes alone is a commit", async () => {
    const branch = await freshBranch();
    const target = await put(branch, "a", "x");
    await branch.files.put({ path: "a", content: inline("x"), attributes: { contentType: "text/y" } });
    expect(await reverted(branch, target ?? "")).not.toBeNull();
    expect(await branch.files.read({ path: "a" })).toMatchObject({ attributes: {} });
  });

  test("makes no commit if nothing differs", async () => {
    const { branch, target } = await prepared();
    await reverted(branch, target);
    const before = await branch.lifecycle.status();
    expect(await reverted(branch, target)).toBeNull();
    expect(await branch.lifecycle.status()).toEqual(before);
    expect(await countOf(branch, "staged")).toBe(0);
  });

  test("can be reverted itself, and tells its end to whoever asks again", async () => {
    const { branch, target } = await prepared();
    const status = await branch.lifecycle.status();
    const tree = await treeOf(branch);
    const openCommit = await begun(branch, target);
    const end = await finished(branch, openCommit);
    expect(await finished(branch, openCommit)).toEqual(end);
    const entry = await branch.history.commit({ commit: end.commit ?? "" });
    expect(entry).toMatchObject({ annotation: { message: `revert to ${target}` } });
    await reverted(branch, (status.ok && status.head) || "");
    expect(await treeOf(branch)).toEqual(tree);
  });

  test("is refused on the output of a pipeline, and to what is not there", async () => {
    const branch = branchOf(freshBucket());
    expect(await branch.openCommits.revert({ commit: "c" })).toEqual({ ok: false, reason: "no-such-branch" });
    await branch.output.claim({ uid: "u", pipeline: "p" });
    expect(await branch.openCommits.revert({ commit: "c" })).toEqual({
      ok: false,
      reason: "pipeline-output",
    });
    const other = await freshBranch();
    expect(await other.openCommits.revert({ commit: "c" })).toEqual({ ok: false, reason: "no-such-version" });
    expect(await countOf(other, "commits")).toBe(0);
    const first = await put(other, "a");
    await put(other, "a", "changed");
    await other.settings.change({ writer: { key: "mine" } });
    const asked = { commit: first ?? "", annotation: { key: "theirs" } };
    expect(await other.openCommits.revert(asked)).toMatchObject({ ok: false, reason: "protected" });
    expect(await other.openCommits.revert({ ...asked, annotation: { key: "mine" } })).toMatchObject({
      ok: true,
    });
  });

  test("reverts what was written before it began, and keeps what comes after", async () => {
    const { branch, target, tree } = await prepared();
    const crash = crashAt({ statement: SLICE, nth: 1 });
    const openCommit = await begun(branch, target);
    await crash.reached();
    const late = branch.files.put({ path: "late", content: inline("late"), attributes: {} });
    const bulk = branch.files.commit({
      operations: [{ put: "bulk", ...inline("late") }, { delete: "stays" }],
    });
    expect(await listed(branch)).not.toContain("late");
    crash.resume();
    await goOn(branch);
    const { commit } = await finished(branch, openCommit);
    const put = committed(await late);
    expect(await bulk).toMatchObject({ ok: true });
    expect(await treeOf(branch, commit ?? "")).toEqual(tree);
    expect(await branch.history.commit({ commit: put ?? "" })).toMatchObject({ parent: commit });
    const paths = await listed(branch);
    expect(paths).toEqual(expect.arrayContaining(["late", "bulk"]));
    expect(paths).not.toContain("stays");
  });

  test("that was begun can be called off, and lets the others in", async () => {
    const { branch, target } = await prepared();
    const tree = await treeOf(branch);
    const crash = crashAt({ statement: SLICE, nth: 1 });
    const openCommit = await begun(branch, target);
    await crash.reached();
    expect(await branch.openCommits.abort({ openCommit })).toEqual({ ok: true });
    crash.resume();
    expect(await treeOf(branch)).toEqual(tree);
    await put(branch, "next");
    expect(await branch.openCommits.finish({ openCommit })).toEqual({
      ok: false,
      reason: "no-such-open-commit",
    });
    await drained(branch);
    await expectRefsRight(branch);
  });

  test("takes nothing that a client puts into it", async () => {
    const { branch, target } = await prepared();
    const crash = crashAt({ statement: SLICE, nth: 1 });
    const openCommit = await begun(branch, target);
    const into = { openCommit, path: "mine", content: inline("x"), attributes: {} };
    const answer = branch.files.put(into);
    crash.resume();
    await goOn(branch);
    await finished(branch, openCommit);
    expect(await answer).toEqual({ ok: false, reason: "no-such-open-commit" });
  });
});

describe("a crash", () => {
  test.each([
    ["before the first slice", SLICE, 1],
    ["before the second slice", SLICE, 2],
    ["when what differs is staged", /INSERT OR REPLACE INTO staged/, 1],
    ["before the commit", /DELETE FROM reverting/, 1],
    ["in the commit", /INSERT INTO commits/, 1],
  ] as const)("%s loses nothing of a revert: it is one commit", async (_, statement, nth) => {
    const { branch, target, tree } = await prepared();
    const before = await countOf(branch, "commits");
    const crash = crashAt({ statement, nth });
    const openCommit = await begun(branch, target);
    await crash.reached();
    await restarted(branch);
    crash.resume();
    await goOn(branch);
    expect(await finished(branch, openCommit)).toMatchObject({ commit: expect.any(String) });
    expect(await treeOf(branch)).toEqual(tree);
    expect(await countOf(branch, "commits")).toBe(before + 1);
    expect(await countOf(branch, "staged")).toBe(0);
    await expectRefsRight(branch);
  });
});

describe("a revert of more than 10,000 changes", REST, () => {
  /** Two commits of 6,000 files each after the target, which has 1,000 of them, and others that stay. */
  async function manyChanges(): Promise<{ branch: BranchStub; target: string; before: string[] }> {
    const branch = await freshBranch();
    await seed(branch);
    const old = numbered("many/", 1000);
    await branch.files.commit({ operations: old.map((path, n) => putText(path, n)) });
    const stay = numbered("stay/", 500);
    const target =
      committed(await branch.files.commit({ operations: stay.map((path, n) => putText(path, n)) })) ?? "";
    const before = await allPaths(branch);
    for (const page of pagesOf(numbered("many/", 12_000).map((path, n) => putText(path, n + 1)))) {
      committed(await branch.files.commit({ operations: page }));
    }
    await branch.files.commit({ operations: numbered("many/", 300).map((path) => ({ delete: path })) });
    return { branch, target, before };
  }

  test("is one commit, that is seen whole or not at all", async () => {
    const { branch, target, before } = await manyChanges();
    const during = await allPaths(branch);
    const commits = await countOf(branch, "commits");
    const crash = crashAt({ statement: /SELECT count\(\*\) AS paths/, nth: 4 });
    const openCommit = await begun(branch, target);
    await crash.reached();
    expect(await allPaths(branch)).toEqual(during);
    await restarted(branch);
    crash.resume();
    await goOn(branch);
    expect(await finished(branch, openCommit)).toMatchObject({ commit: expect.any(String) });
    expect(await allPaths(branch)).toEqual(before);
    expect(
      await branch.history.diff({ from: target, to: await headOf(branch), after: "", limit: 100 }),
    ).toMatchObject({
      changes: [],
    });
    expect(await countOf(branch, "commits")).toBe(commits + 1);
    await expectRefsRight(branch);
  });

  test("costs what changed, however much there is", async () => {
    const { branch } = await manyChanges();
    const target = await headOf(branch);
    await put(branch, "last");
    let rows = 0;
    const execute = Sql.prototype.execute;
    vi.spyOn(Sql.prototype, "execute").mockImplementation(function (this: Sql, text, values) {
      const cursor = execute.call(this, text, values);
      // The rest is asking whether it is done, which goes by no path, and happens as often as the machine is slow.
      if (!/\bpath\b/.test(text)) return cursor;
      const { toArray } = cursor;
      // What is read is known when the rows have been.
      cursor.toArray = () => {
        const all = toArray.call(cursor);
        rows += cursor.rowsRead;
        return all;
      };
      return cursor;
    });
    await reverted(branch, target);
    expect(rows).toBeGreaterThan(0);
    expect(rows).toBeLessThan(200);
  });
});

async function headOf(branch: BranchStub): Promise<string> {
  const status = await branch.lifecycle.status();
  return (status.ok && status.head) || "";
}
