import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { BranchUsage } from "../../../worker/branch/contract.ts";
import { type BranchStub, branchOf, freshBranch, freshBucket, put, startOpenCommit } from "./support.ts";

async function usageOf(branch: BranchStub): Promise<NonNullable<BranchUsage["contents"]>> {
  const usage = await branch.usage({});
  if (!usage.ok || !usage.contents) throw new Error(JSON.stringify(usage));
  return usage.contents;
}

/** A branch whose file was written so many times, one byte longer each time. */
async function rewritten(times: number): Promise<BranchStub> {
  const branch = await freshBranch();
  for (let n = 1; n <= times; n++) await put(branch, "a", "x".repeat(n));
  return branch;
}

describe("what a branch takes up", () => {
  test("is the files of HEAD, what only history has, and what is condemned", async () => {
    const branch = await rewritten(4);
    await put(branch, "b", "yy");
    await branch.commit({ operations: [{ delete: "b" }] });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec(
        "INSERT INTO condemned (blob, due, sure) VALUES ('b/00/uid/abc-400.w.u', 9, 1), ('b/00/uid/def-30.manifest.w.u', 9, 1)",
      );
    });
    expect(await usageOf(branch)).toMatchObject({
      live: { count: 1, bytes: 4 },
      history: { count: 4, bytes: 1 + 2 + 3 + 2 },
      reclaimable: { count: 0, bytes: 0 },
      condemned: { count: 2, bytes: 430 },
    });
  });

  test("is counted in slices, each row once", async () => {
    const branch = await freshBranch();
    const rows = 12_345;
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})
         INSERT INTO files (gen, path, born, died, kind, digest, size)
         SELECT 1, 'p' || (i / 3), i, CASE WHEN i % 3 < 2 THEN i + 1 END, 0, zeroblob(32), 1 FROM n`,
      );
    });
    const { live, history } = await usageOf(branch);
    expect(live.count + history.count).toBe(rows);
    expect(live.bytes + history.bytes).toBe(rows);
  });

  test("and how large its database is, is known without counting", async () => {
    const branch = await rewritten(1);
    expect(await branch.usage({ sizes: true })).toEqual({
      ok: true,
      database: { usedBytes: expect.any(Number), limitBytes: 10_000_000_000 },
      contents: null,
    });
    expect(await branchOf(freshBucket()).usage({})).toEqual({ ok: false, reason: "no-such-branch" });
  });
});

describe("what holds most back", () => {
  test("nothing, if there is no history", async () => {
    expect(await usageOf(await rewritten(1))).toMatchObject({ holder: null });
  });

  test("is that everything is kept, or what is to be kept", async () => {
    const branch = await rewritten(5);
    expect(await usageOf(branch)).toMatchObject({ holder: { kind: "keep", keep: null, count: 4 } });
    await branch.configure({ keep: { commits: 3 } });
    expect(await usageOf(branch)).toMatchObject({ holder: { kind: "keep", keep: { commits: 3 }, count: 2 } });
  });

  test("is the pipeline that needs most beyond that", async () => {
    const branch = await rewritten(3);
    await branch.subscribe({ uid: "u", pipeline: "slow" });
    await branch.configure({ keep: { commits: 1 } });
    for (let n = 4; n <= 9; n++) await put(branch, "a", "x".repeat(n));
    expect(await usageOf(branch)).toMatchObject({ holder: { kind: "pipeline", pipeline: "slow" } });
    await branch.unsubscribe({ uid: "u" });
    expect(await usageOf(branch)).not.toMatchObject({ holder: { kind: "pipeline" } });
  });

  test("is the single commit that has most, with what names it", async () => {
    const branch = await rewritten(4);
    await branch.createTag({ name: "v1", force: false });
    await startOpenCommit(branch);
    for (let n = 5; n <= 6; n++) await put(branch, "a", "x".repeat(n));
    await branch.configure({ keep: { commits: 1 } });
    await expect
      .poll(async () => (await usageOf(branch)).holder)
      .toMatchObject({
        kind: "commit",
        count: 1,
        names: ["the tag v1", expect.stringContaining("the open commit")],
      });
  });
});
