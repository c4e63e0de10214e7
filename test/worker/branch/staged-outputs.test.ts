import { afterEach, describe, expect, test, vi } from "vitest";
import type { Operation } from "../../../worker/branch/contract/files.ts";
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
  seedLease,
} from "./large-support.ts";
import { type BranchStub, branchOf, committed, freshBucket, inline, ledgerOf, listed } from "./support.ts";

const OWNER = { pipeline: "p", uid: "u" };
const LOST = { ok: false, reason: "lost-claim" };

afterEach(() => {
  vi.restoreAllMocks();
});

async function claim(branch: BranchStub): Promise<number> {
  const claimed = await branch.output.claim(OWNER);
  if (!claimed.ok) throw new Error(claimed.reason);
  return claimed.epoch;
}

/** A claimed branch that has contents for `putText`. */
async function output(): Promise<{ branch: BranchStub; epoch: number }> {
  const branch = branchOf(freshBucket());
  const epoch = await claim(branch);
  await seedLease(branch);
  return { branch, epoch };
}

/** Asks for the commit of a job until it is made. */
async function made(branch: BranchStub, job: { uid: string; epoch: number; origin: string }) {
  for (;;) {
    const answer = await branch.output.commit({ ...job, operations: [], staged: true });
    if (answer.ok || answer.reason !== "applying") return answer;
    await scheduler.wait(1);
  }
}

async function stageAll(
  branch: BranchStub,
  job: { uid: string; epoch: number; origin: string },
  operations: readonly Operation[],
): Promise<void> {
  for (const [n, page] of pagesOf(operations).entries()) {
    expect(await branch.output.stage({ ...job, operations: page, anew: n === 0 })).toEqual({ ok: true });
  }
}

describe("the output of a job that comes in pieces", () => {
  test("is one commit, however often it is asked for, and staging more then changes nothing", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1" };
    await branch.output.stage({ ...job, operations: [putText("a", 1), putText("b", 1)], anew: true });
    await branch.output.stage({ ...job, operations: [{ delete: "a" }, putText("c", 2)], anew: false });
    expect(await listed(branch)).toEqual([]);
    const first = await made(branch, job);
    expect(await made(branch, job)).toEqual(first);
    const late = { ...job, operations: [putText("d", 1)] };
    expect(await branch.output.stage({ ...late, anew: false })).toEqual({ ok: true });
    expect(await branch.output.commit({ ...late })).toEqual(first);
    expect(await listed(branch)).toEqual(["b", "c"]);
    expect(await branch.lifecycle.status()).toMatchObject({ head: committed(first) });
    await expectRefsRight(branch);
  });

  test("begins anew if that is asked", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1" };
    await branch.output.stage({ ...job, operations: [putText("a", 1)], anew: true });
    await branch.output.stage({ ...job, operations: [putText("b", 1)], anew: true });
    committed(await made(branch, job));
    expect(await listed(branch)).toEqual(["b"]);
    await goOn(branch);
    await expectRefsRight(branch);
  });

  test("is a commit, too, if it changes nothing", async () => {
    const { branch, epoch } = await output();
    const ids = [];
    for (const origin of ["j1", "j2"]) {
      const job = { uid: "u", epoch, origin };
      await branch.output.stage({ ...job, operations: [putText("a", 1)], anew: true });
      ids.push(committed(await made(branch, job)));
    }
    expect(new Set(ids).size).toBe(2);
    expect(ids).not.toContain(null);
  });

  test("keeps its contents, and names the path whose content is not there", async () => {
    const branch = branchOf(freshBucket());
    const job = { uid: "u", epoch: await claim(branch), origin: "j1" };
    const opened = await branch.uploads.open({ lease: "l" });
    if (!opened.ok) throw new Error(opened.reason);
    const content = inline("kept");
    await branch.uploads.add({ upload: opened.upload, contents: [content] });
    const { digest, size } = content;
    const lost = inline("lost");
    expect(
      await branch.output.stage({
        ...job,
        operations: [
          { put: "a", digest, size },
          { put: "b", digest: lost.digest, size: lost.size },
        ],
        anew: true,
      }),
    ).toEqual({ ok: false, reason: "no-such-content", path: "b" });
    await branch.output.stage({ ...job, operations: [{ put: "a", digest, size }], anew: false });
    await branch.uploads.abort({ upload: opened.upload });
    expect(await branch.files.content({ digest, size })).toMatchObject({ ok: true });
    committed(await made(branch, job));
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[4, 1]] });
  });

  test("refuses what no tree can hold", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1", anew: true };
    expect(await branch.output.stage({ ...job, operations: [putText("a//b", 1)] })).toMatchObject({
      reason: "bad-path",
      path: "a//b",
    });
    const operations = numbered("f", 10_001).map((path) => ({ delete: path }));
    expect(await branch.output.stage({ ...job, operations })).toEqual({
      ok: false,
      reason: "too-many-operations",
    });
  });

  test("tells of a conflict, and can then be staged anew", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1" };
    await branch.output.stage({ ...job, operations: [putText("a/b", 1), putText("a", 2)], anew: true });
    const conflict = { ok: false, reason: "path-conflict", path: "a/b", other: "a" };
    expect(await made(branch, job)).toEqual(conflict);
    const others = numbered("f", 10_000).map((path, n) => putText(path, n));
    await stageAll(branch, job, [...others, putText("a/b", 1), putText("a", 2)]);
    expect(await made(branch, job)).toEqual(conflict);
    await branch.output.stage({ ...job, operations: [putText("ok", 1)], anew: true });
    committed(await made(branch, job));
    expect(await listed(branch)).toEqual(["ok"]);
  }, 60_000);
});

describe("a claim over what an earlier one staged", () => {
  test("fences it at every step, and drops it", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1" };
    await branch.output.stage({ ...job, operations: [putText("a", 1)], anew: true });
    const next = { ...job, epoch: await claim(branch) };
    expect(await branch.output.stage({ ...job, operations: [], anew: false })).toEqual(LOST);
    expect(await branch.output.commit({ ...job, operations: [], staged: true })).toEqual(LOST);
    expect(await branch.output.commit({ ...next, operations: [], staged: true })).toEqual({
      ok: false,
      reason: "no-such-open-commit",
    });
    await goOn(branch);
    expect(await countOf(branch, "staged")).toBe(0);
    await expectRefsRight(branch);
    await branch.output.stage({ ...next, operations: [putText("b", 1)], anew: true });
    committed(await made(branch, next));
    expect(await listed(branch)).toEqual(["b"]);
  });

  test("drops it while it is checked, and goes on from nothing", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1" };
    await stageAll(
      branch,
      job,
      numbered("f", 10_001).map((path, n) => putText(path, n)),
    );
    const crash = crashAt({ statement: /below\.path >= staged\.path/, nth: 2 });
    expect(await branch.output.commit({ ...job, operations: [], staged: true })).toMatchObject({
      reason: "applying",
    });
    await crash.reached();
    const next = { ...job, epoch: await claim(branch) };
    expect(await countOf(branch, "applying")).toBe(0);
    crash.resume();
    await branch.output.stage({ ...next, operations: [putText("b", 1)], anew: true });
    committed(await made(branch, next));
    expect(await listed(branch)).toEqual(["b"]);
  }, 60_000);

  test("finds it made if it was being written already", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1" };
    const paths = numbered("f", 10_001);
    await stageAll(
      branch,
      job,
      paths.map((path, n) => putText(path, n)),
    );
    const crash = crashAt({ statement: /SELECT count\(\*\) AS paths/, nth: 3 });
    await branch.output.commit({ ...job, operations: [], staged: true });
    await crash.reached();
    const next = { ...job, epoch: await claim(branch) };
    const again = { ...next, operations: [putText("b", 1)], anew: true };
    expect(await branch.output.stage(again)).toEqual({ ok: false, reason: "applying" });
    await restarted(branch);
    crash.resume();
    committed(await made(branch, next));
    expect(await branch.output.stage(again)).toEqual({ ok: true });
    expect(await allPaths(branch)).toEqual(paths);
    expect(await countOf(branch, "commits")).toBe(1);
  }, 60_000);

  test("is not needed: giving the branch up drops it as well, and deleting it waits for what is written", async () => {
    const { branch, epoch } = await output();
    const job = { uid: "u", epoch, origin: "j1" };
    await branch.output.stage({ ...job, operations: [putText("a", 1)], anew: true });
    await branch.output.release({ uid: "u", destroy: false });
    expect(await made(branch, job)).toEqual(LOST);
    await goOn(branch);
    expect(await countOf(branch, "staged")).toBe(0);

    const large = await output();
    const next = { uid: "u", epoch: large.epoch, origin: "j2" };
    await stageAll(
      large.branch,
      next,
      numbered("f", 10_001).map((path, n) => putText(path, n)),
    );
    await large.branch.output.commit({ ...next, operations: [], staged: true });
    await large.branch.output.release({ uid: "u", destroy: true });
    const { events } = await large.branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 1 });
    expect(events).toMatchObject([{ kind: "commit", seq: 1 }]);
    const after = await large.branch.feed.read({ cursor: { generation: 1, seq: 1 }, limit: 1 });
    expect(after.events).toMatchObject([{ kind: "deletion", seq: 2 }]);
  }, 60_000);
});
