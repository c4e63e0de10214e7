import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { BranchUsage } from "../../../worker/branch/contract/admin.ts";
import { forkOf } from "./fork-support.ts";
import { crashAt } from "./large-support.ts";
import { dayAfterTags } from "./retention-support.ts";
import {
  type BranchStub,
  branchOf,
  freshBranch,
  freshBucket,
  inObject,
  put,
  startOpenCommit,
} from "./support.ts";

async function usageOf(branch: BranchStub): Promise<NonNullable<BranchUsage["contents"]>> {
  const usage = await branch.admin.usage({});
  if (!usage.ok || !usage.contents) throw new Error(JSON.stringify(usage));
  return usage.contents;
}

/** A branch whose file was written so many times, one byte longer each time. */
async function rewritten(times: number, bucket = freshBucket()): Promise<BranchStub> {
  const branch = await freshBranch(bucket);
  for (let n = 1; n <= times; n++) await put(branch, "a", "x".repeat(n));
  return branch;
}

describe("what a branch takes up", () => {
  test("is the files of HEAD, what only history has, and what is condemned", async () => {
    const branch = await rewritten(4);
    await put(branch, "b", "yy");
    await branch.files.commit({ operations: [{ delete: "b" }] });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec(
        "INSERT INTO pending_deletions (blob, due, borrowed) VALUES ('b/00/uid/abc-400.w.u', 9, 0), ('b/00/uid/def-30.manifest.w.u', 9, 0)",
      );
    });
    expect(await usageOf(branch)).toMatchObject({
      live: { count: 1, bytes: 4 },
      history: { count: 4, bytes: 1 + 2 + 3 + 2 },
      reclaimable: { count: 0, bytes: 0 },
      condemned: { count: 2, bytes: 430 },
    });
  });

  test("is being given back as long as no commit that is kept has it, and it is still there", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const branch = await rewritten(4);
    const crash = crashAt({ statement: /DELETE FROM files/, nth: 1 });
    await branch.settings.change({ keep: { commits: 1 } });
    await crash.reached();
    expect(await usageOf(branch)).toMatchObject({
      live: { count: 1, bytes: 4 },
      history: { count: 0, bytes: 0 },
      reclaimable: { count: 3, bytes: 1 + 2 + 3 },
      holder: null,
    });
    crash.resume();
    warn.mockRestore();
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
    expect(await branch.admin.usage({ sizes: true })).toEqual({
      ok: true,
      database: { usedBytes: expect.any(Number), limitBytes: 10_000_000_000 },
      contents: null,
    });
    expect(await branchOf(freshBucket()).admin.usage({})).toEqual({ ok: false, reason: "no-such-branch" });
  });
});

describe("what holds most back", () => {
  test("is nothing, if there is no history", async () => {
    expect(await usageOf(await rewritten(1))).toMatchObject({ holder: null });
  });

  test("is that everything is kept, or what is to be kept", async () => {
    const branch = await rewritten(5);
    expect(await usageOf(branch)).toMatchObject({ holder: { kind: "keep", keep: null, count: 4 } });
    await branch.settings.change({ keep: { commits: 3 } });
    expect(await usageOf(branch)).toMatchObject({ holder: { kind: "keep", keep: { commits: 3 }, count: 2 } });
  });

  test("is nothing, or less, once versions are erased", async () => {
    const branch = await freshBranch();
    const ids: string[] = [];
    for (const text of ["1", "22", "333", "4444"]) ids.push((await put(branch, "a", text)) ?? "");
    const [one = "", two = "", three = ""] = ids;
    await branch.erasures.erase({ versions: [{ path: "a", version: two }] });
    expect(await usageOf(branch)).toMatchObject({
      history: { count: 2, bytes: 1 + 3 },
      holder: { kind: "keep", count: 2 },
    });
    await branch.erasures.erase({ versions: [one, three].map((version) => ({ path: "a", version })) });
    expect(await usageOf(branch)).toMatchObject({ history: { count: 0 }, holder: null });
  });

  test("is the pipeline that needs most beyond that", async () => {
    const branch = await rewritten(3);
    await branch.feed.subscribe({ uid: "u", pipeline: "slow" });
    await branch.settings.change({ keep: { commits: 1 } });
    for (let n = 4; n <= 9; n++) await put(branch, "a", "x".repeat(n));
    expect(await usageOf(branch)).toMatchObject({ holder: { kind: "pipeline", pipeline: "slow" } });
    await branch.feed.unsubscribe({ uid: "u" });
    expect(await usageOf(branch)).not.toMatchObject({ holder: { kind: "pipeline" } });
  });

  test("is held by a pipeline since the commit was made that it waits with", async () => {
    const branch = await rewritten(3);
    await branch.feed.subscribe({ uid: "u", pipeline: "slow", starts: [] });
    for (let n = 4; n <= 6; n++) await put(branch, "a", "x".repeat(n));
    await branch.settings.change({ keep: { commits: 1 } });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE commits SET createdAt = seq * 1000");
    });
    expect(await usageOf(branch)).toMatchObject({
      holder: { kind: "pipeline", pipeline: "slow", since: 4000, count: 3 },
    });
  });

  test("is the single commit that has most, with what names it", async () => {
    const branch = await rewritten(4);
    await branch.tags.create({ name: "v1", force: false });
    await startOpenCommit(branch);
    for (let n = 5; n <= 6; n++) await put(branch, "a", "x".repeat(n));
    await branch.settings.change({ keep: { commits: 1 } });
    await expect
      .poll(async () => (await usageOf(branch)).holder)
      .toMatchObject({
        kind: "commit",
        count: 1,
        names: ["the tag v1", expect.stringContaining("the open commit")],
      });
  });

  test("is the pipeline that starts after a single commit, also while it is stopped", async () => {
    const branch = await rewritten(2);
    const commit = (await put(branch, "a", "333")) ?? "";
    const starts = [{ commit, generation: 1, seq: 3 }];
    await branch.feed.subscribe({ uid: "u", pipeline: "late", starts });
    for (let n = 4; n <= 6; n++) await put(branch, "a", "x".repeat(n));
    await branch.feed.setMark({ uid: "u", generation: 1, seq: 6, job: null, starts });
    await branch.settings.change({ keep: { commits: 1 } });
    const holder = { kind: "commit", commit, names: [], pipelines: ["late"], count: 1 };
    await expect.poll(async () => (await usageOf(branch)).holder).toMatchObject(holder);
    for (let times = 0; times < 2; times++) await branch.feed.unsubscribe({ uid: "u", stopped: true });
    expect(await usageOf(branch)).toMatchObject({ holder });
  });

  test("is a revert that is under way to a commit that nothing else names", async () => {
    const branch = await rewritten(4);
    await branch.tags.create({ name: "v1", force: false });
    await put(branch, "a", "55555");
    await branch.settings.change({ keep: { commits: 1 } });
    await expect.poll(async () => (await usageOf(branch)).holder).toMatchObject({ names: ["the tag v1"] });
    const holder = await inObject(branch, async (instance, { storage: { sql } }) => {
      sql.exec("DELETE FROM tags");
      sql.exec(
        "INSERT INTO reverting (one, openCommit, gen, target, head, walk, seq, path) VALUES (1, 1, 1, 4, 5, 0, 0, '')",
      );
      const usage = await instance.admin.usage({});
      sql.exec("DELETE FROM reverting");
      return usage.ok && usage.contents?.holder;
    });
    expect(holder).toMatchObject({ kind: "commit", names: ["a revert to it that is under way"], count: 1 });
  });

  test("is a commit whose tag went, with the time at which it goes", async () => {
    const branch = await rewritten(3);
    await branch.tags.create({ name: "v1", force: false });
    await put(branch, "a", "4444");
    await branch.settings.change({ keep: { commits: 1 } });
    await branch.tags.delete({ name: "v1" });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE untagged SET due = ?", Date.parse("2099-12-31T23:59:58.765Z"));
    });
    await expect
      .poll(async () => (await usageOf(branch)).holder)
      .toMatchObject({
        kind: "commit",
        names: ["the tag v1 (deleted or moved, and kept until 2099-12-31T23:59:58Z)"],
        count: 1,
      });
  });

  test("is an export that is under way, until it ends", async () => {
    const branch = await rewritten(4);
    const before = Date.now();
    const begun = await branch.exports.begin();
    if (!begun.ok) throw new Error(begun.reason);
    await branch.settings.change({ keep: { commits: 1 } });
    const { holder } = await usageOf(branch);
    expect(holder).toEqual({ kind: "export", since: expect.any(Number), count: 3 });
    expect(holder?.kind === "export" && holder.since).toBeGreaterThanOrEqual(before);
    await branch.exports.end({ export: begun.export });
    await expect.poll(async () => (await usageOf(branch)).holder).toBeNull();
  });

  test("is an export also of what a tag held that was deleted meanwhile, and not of what is kept anyway", async () => {
    const branch = await rewritten(3);
    await branch.tags.create({ name: "v1", force: false });
    await put(branch, "a", "4444");
    await branch.settings.change({ keep: { commits: 1 } });
    await expect.poll(async () => (await usageOf(branch)).history.count).toBe(1);
    expect(await branch.exports.begin()).toMatchObject({ ok: true });
    expect(await usageOf(branch)).toMatchObject({
      holder: { kind: "commit", names: ["the tag v1"], count: 1 },
    });
    await branch.tags.delete({ name: "v1" });
    await dayAfterTags(branch);
    await expect.poll(() => usageOf(branch)).toMatchObject({ holder: { kind: "export", count: 1 } });
  });
});

describe("what a deleted branch left", () => {
  test("is held by the branch that was made from it, whether its name is taken again or not", async () => {
    const bucket = freshBucket();
    const branch = await rewritten(3, bucket);
    const commit = await put(branch, "b", "yy");
    const fork = await forkOf(bucket);
    await put(branch, "a", "x".repeat(9));
    await branch.lifecycle.destroy();
    const contents = {
      live: { count: 0, bytes: 0 },
      history: { count: 2, bytes: 3 + 2 },
      reclaimable: { count: 0, bytes: 0 },
      holder: {
        kind: "commit",
        commit,
        deleted: true,
        names: [],
        forks: [fork.bucket],
        pipelines: [],
        count: 2,
      },
    };
    await expect.poll(() => branch.admin.usage({})).toMatchObject({ deleted: true, contents });
    expect(await branch.admin.usage({ sizes: true })).toEqual({ ok: false, reason: "no-such-branch" });

    await branch.lifecycle.create();
    await put(branch, "new");
    const again = await branch.admin.usage({});
    expect(again).toMatchObject({ contents: { ...contents, live: { count: 1, bytes: 3 } } });
    expect(again).not.toHaveProperty("deleted");

    await fork.branch.lifecycle.destroy();
    await expect
      .poll(() => usageOf(branch))
      .toMatchObject({ history: { count: 0 }, reclaimable: { count: 0 }, holder: null });
  });

  test("is held by the pipeline that still reads it, and is nothing once it does not", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "slow", starts: [] });
    for (const text of ["1", "22", "333"]) await put(branch, "a", text);
    await branch.lifecycle.destroy();
    expect(await branch.admin.usage({})).toMatchObject({
      deleted: true,
      contents: { history: { count: 3, bytes: 6 }, holder: { kind: "pipeline", pipeline: "slow", count: 3 } },
    });
    await branch.feed.setMark({ uid: "u", generation: 1, seq: 4, job: null, starts: [] });
    await expect.poll(() => branch.admin.usage({})).toEqual({ ok: false, reason: "no-such-branch" });
  });
});
