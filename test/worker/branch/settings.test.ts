import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import type { CorsRule } from "../../../worker/core/cors.ts";
import {
  allTold,
  type BranchStub,
  branchOf,
  freshBranch,
  freshBucket,
  isCatalogued,
  put,
  startOpenCommit,
  withoutCatalogue,
} from "./support.ts";

const RULE: CorsRule = { origins: ["*"], methods: ["GET"], headers: [], exposed: [] };
const NOT_PUBLIC = { ok: false, reason: "not-public" };

/** What the catalogue says of a bucket; undefined if it says that it is closed. */
async function openness(bucket: string): Promise<{ isPublic: boolean; hasCors: boolean } | undefined> {
  const [branch = "", repo = ""] = bucket.split(".");
  const { settings } = openCatalogue(env.DB);
  const [found, listed] = [await settings.findOpen({ repo, branch }), await settings.listOpen(1000)];
  const inList = listed.find((row) => row.repo === repo && row.branch === branch);
  expect(inList).toEqual(found);
  return found && { isPublic: found.isPublic, hasCors: found.hasCors };
}

/** The catalogue takes no settings while `work` runs. */
async function withoutSettings<T>(work: () => Promise<T>): Promise<T> {
  await env.DB.exec(
    "CREATE TRIGGER settings_away BEFORE INSERT ON branch_settings BEGIN SELECT RAISE(ABORT, 'can not be written'); END",
  );
  try {
    return await work();
  } finally {
    await env.DB.exec("DROP TRIGGER settings_away");
  }
}

/** All reads that somebody without a key makes. */
async function publicReads(branch: BranchStub): Promise<unknown[]> {
  const all = [
    await branch.lifecycle.status({ publicOnly: true }),
    await branch.files.read({ path: "a", publicOnly: true }),
    await branch.files.list({ prefix: "", limit: 10, publicOnly: true }),
  ];
  return all.map((answer) => (answer.ok ? "ok" : answer));
}

/** The process dies, and the alarm of the next one tells what waits. */
async function alarmTells(branch: BranchStub): Promise<void> {
  await evictDurableObject(branch);
  await allTold(branch);
}

describe("a branch that is set to be public", () => {
  test("answers public reads, and the catalogue knows of it before the call returns", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    const commit = await put(branch, "a");
    expect(await publicReads(branch)).toEqual([NOT_PUBLIC, NOT_PUBLIC, NOT_PUBLIC]);
    expect(await openness(bucket)).toBeUndefined();
    expect(await branch.settings.change({ public: true })).toEqual({ ok: true });
    expect(await openness(bucket)).toEqual({ isPublic: true, hasCors: false });
    expect(await publicReads(branch)).toEqual(["ok", "ok", "ok"]);
    expect((await branch.files.read({ path: "a", commit: commit ?? "", publicOnly: true })).ok).toBe(true);
    await evictDurableObject(branch);
    expect(await publicReads(branch)).toEqual(["ok", "ok", "ok"]);
  });

  test("shows no open commit to public reads", async () => {
    const branch = await freshBranch();
    await branch.settings.change({ public: true });
    const openCommit = await startOpenCommit(branch);
    const absent = { ok: false, reason: "no-such-open-commit" };
    expect(await branch.files.read({ path: "a", openCommit, publicOnly: true })).toEqual(absent);
    expect(await branch.files.list({ prefix: "", limit: 1, openCommit, publicOnly: true })).toEqual(absent);
    expect(await branch.files.view({ view: openCommit, publicOnly: true })).toEqual(absent);
    expect(await branch.files.view({ view: openCommit })).toMatchObject({ ok: true });
  });

  test("is not acknowledged while the catalogue can't be told, and is told by the alarm", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    const refused = await withoutSettings(async () => await branch.settings.change({ public: true }));
    expect(refused).toEqual({ ok: false, reason: "catalogue-unavailable" });
    expect(await openness(bucket)).toBeUndefined();
    await alarmTells(branch);
    expect(await openness(bucket)).toEqual({ isPublic: true, hasCors: false });
  });

  test("is acknowledged when it is asked for again after that", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await withoutSettings(async () => await branch.settings.change({ public: true }));
    expect(await branch.settings.change({ public: true })).toEqual({ ok: true });
    expect(await openness(bucket)).toEqual({ isPublic: true, hasCors: false });
  });

  test("ceases to be at once, also while the catalogue can't be told", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await put(branch, "a");
    await branch.settings.change({ public: true });
    const off = await withoutSettings(async () => await branch.settings.change({ public: false }));
    expect(off).toEqual({ ok: true });
    expect(await publicReads(branch)).toEqual([NOT_PUBLIC, NOT_PUBLIC, NOT_PUBLIC]);
    await evictDurableObject(branch);
    expect(await publicReads(branch)).toEqual([NOT_PUBLIC, NOT_PUBLIC, NOT_PUBLIC]);
    await alarmTells(branch);
    expect(await openness(bucket)).toBeUndefined();
  });

  test("ceases to be with its deletion, and is not public when it is made again", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await branch.settings.change({ public: true, cors: [RULE] });
    await branch.lifecycle.destroy();
    expect(await openness(bucket)).toBeUndefined();
    expect(await publicReads(branch)).toEqual([NOT_PUBLIC, NOT_PUBLIC, NOT_PUBLIC]);
    await branch.lifecycle.create();
    await put(branch, "a");
    expect(await branch.settings.read()).toEqual({
      ok: true,
      public: false,
      cors: null,
      writer: null,
      lifecycle: null,
      keep: null,
      modified: null,
      emptyOnly: false,
      nearReads: false,
    });
    expect(await publicReads(branch)).toEqual([NOT_PUBLIC, NOT_PUBLIC, NOT_PUBLIC]);
    expect(await openness(bucket)).toBeUndefined();
  });

  test("leaves no row among the open ones once it is deleted, which the alarm tells if nobody else does", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await branch.settings.change({ public: true });
    await withoutSettings(async () => await branch.lifecycle.destroy());
    // The branch's own row says that it is gone.
    expect(await openness(bucket)).toBeUndefined();
    // It is told after the answer, or by the alarm if that came too early.
    await vi.waitFor(async () => {
      await runInDurableObject(
        branch,
        (_, { storage }) => void storage.sql.exec("UPDATE outbox SET due = 0"),
      );
      await runDurableObjectAlarm(branch);
      const { results } = await env.DB.prepare(
        "SELECT branch FROM branch_settings WHERE (public = 1 OR cors = 1) AND repo = ?1",
      )
        .bind(bucket.split(".")[1])
        .all();
      expect(results).toEqual([]);
    }, 45_000);
  });

  test("is one that is there", async () => {
    const branch = branchOf(freshBucket());
    expect(await branch.settings.change({ public: true })).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await branch.settings.read()).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await publicReads(branch)).toEqual([NOT_PUBLIC, NOT_PUBLIC, NOT_PUBLIC]);
  });
});

describe("a branch that is made public", () => {
  test("is public from the beginning, and the catalogue knows that", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    expect((await branch.lifecycle.create({ public: true })).ok).toBe(true);
    expect(await openness(bucket)).toEqual({ isPublic: true, hasCors: false });
    expect(await branch.lifecycle.create({ public: false })).toEqual({ ok: false, reason: "already-exists" });
    expect(await branch.settings.read()).toMatchObject({ public: true });
  });

  test("is nobody's while the catalogue can't be told, and then as the one wants it who finishes it", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    const begun = await withoutSettings(async () => await branch.lifecycle.create({ public: true }));
    expect(begun).toEqual({ ok: false, reason: "catalogue-unavailable" });
    expect(await isCatalogued(bucket)).toBe(false);
    expect((await branch.lifecycle.create({})).ok).toBe(true);
    expect(await branch.settings.read()).toMatchObject({ public: false });
    expect([await isCatalogued(bucket), await openness(bucket)]).toEqual([true, undefined]);
  });

  test("stays as it is when it is made again while other news of it wait, such as of its tags", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    await branch.lifecycle.create({ public: true });
    await put(branch, "a");
    await withoutCatalogue(async () => await branch.tags.create({ name: "v1", force: false }));
    expect(await branch.lifecycle.create({})).toEqual({ ok: false, reason: "already-exists" });
    expect(await branch.settings.read()).toMatchObject({ public: true });
  });

  test("is not made again while only its settings wait to be told", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await withoutSettings(async () => await branch.settings.change({ public: true }));
    expect(await branch.lifecycle.create({})).toEqual({ ok: false, reason: "already-exists" });
    expect(await branch.settings.read()).toMatchObject({ public: true });
  });

  test("while the catalogue can't list it is not public either", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    await withoutCatalogue(async () => await branch.lifecycle.create({ public: true }));
    expect(await openness(bucket)).toBeUndefined();
    await alarmTells(branch);
    expect(await openness(bucket)).toEqual({ isPublic: true, hasCors: false });
  });
});

describe("the settings of a branch", () => {
  test("stay as they are where a change does not name them", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await branch.settings.change({ cors: [RULE] });
    await branch.settings.change({ public: true });
    expect(await branch.settings.read()).toEqual({
      ok: true,
      public: true,
      cors: [RULE],
      writer: null,
      lifecycle: null,
      keep: null,
      modified: null,
      emptyOnly: false,
      nearReads: false,
    });
    expect(await openness(bucket)).toEqual({ isPublic: true, hasCors: true });
    await branch.settings.change({ cors: null });
    expect(await branch.settings.read()).toEqual({
      ok: true,
      public: true,
      cors: null,
      writer: null,
      lifecycle: null,
      keep: null,
      modified: null,
      emptyOnly: false,
      nearReads: false,
    });
    await branch.settings.change({ public: false });
    expect(await openness(bucket)).toBeUndefined();
  });

  test("that arrive late in the catalogue do not undo newer ones", async () => {
    const { settings, branches } = openCatalogue(env.DB);
    const row = { repo: "late", branch: "master" };
    const is = { isPublic: true, hasCors: false, writer: null };
    await branches.record({ ...row, createdAt: 1, version: 4, deleted: false });
    await settings.record({ ...row, version: 4, revision: 2, ...is, isPublic: false });
    await settings.record({ ...row, version: 4, revision: 1, ...is });
    await settings.record({ ...row, version: 2, revision: 9, ...is });
    expect(await settings.findOpen(row)).toBeUndefined();
    await settings.record({ ...row, version: 4, revision: 3, ...is });
    expect(await settings.findOpen(row)).toEqual({ ...row, isPublic: true, hasCors: false });
  });

  test("do not count for a branch that was deleted or made again since", async () => {
    const { settings, branches } = openCatalogue(env.DB);
    const row = { repo: "rolled-back", branch: "master" };
    await branches.record({ ...row, createdAt: 1, version: 2, deleted: false });
    await settings.record({ ...row, version: 2, revision: 1, isPublic: true, hasCors: true, writer: null });
    for (const [version, deleted] of [
      [3, true],
      [4, false],
    ] as const) {
      await branches.record({ ...row, createdAt: 1, version, deleted });
      expect(await settings.findOpen(row)).toBeUndefined();
      expect(await settings.ofRepo(row.repo)).toEqual([]);
      expect((await settings.listOpen(1000)).filter(({ repo }) => repo === row.repo)).toEqual([]);
    }
  });

  test("are looked for among open branches alone, however many others there are", async () => {
    const plan = await env.DB.prepare(
      `EXPLAIN QUERY PLAN SELECT s.repo FROM branch_settings AS s INDEXED BY branch_settings_open
       CROSS JOIN branches AS b USING (repo, branch)
       WHERE (s.public = 1 OR s.cors = 1) AND b.version = s.version AND b.deleted = 0
       ORDER BY s.repo, s.branch LIMIT 10`,
    ).all<{ detail: string }>();
    const steps = plan.results.map(({ detail }) => detail);
    expect(steps).toEqual([
      expect.stringContaining("branch_settings_open"),
      expect.stringContaining("PRIMARY KEY"),
    ]);
  });
});

describe("a branch that is set to the time of its objects", () => {
  /** Last-Modified of `a`, by a read and by a listing, at HEAD and in views, as a gateway asks that has no setting. */
  async function timesOf(branch: BranchStub, views: readonly string[]): Promise<(number | undefined)[]> {
    const times: (number | undefined)[] = [];
    for (const view of [{}, ...views.map((openCommit) => ({ openCommit }))]) {
      const read = await branch.files.read({ path: "a", modified: "branch", ...view });
      const list = await branch.files.list({ prefix: "a", limit: 1, modified: "branch", ...view });
      if (!read.ok || !list.ok) throw new Error("it is not there");
      const [entry] = list.entries;
      times.push(read.modifiedAt, (entry && "modifiedAt" in entry && entry.modifiedAt) || list.modifiedAt);
    }
    return times;
  }

  test("answers it wherever a gateway asks for the branch's, and ends with that when it is deleted", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const written = await branch.files.read({ path: "a" });
    const of = written.ok ? written.modifiedAt : 0;
    await vi.waitUntil(() => Date.now() > of);
    const commit = await put(branch, "b");
    const openCommit = await startOpenCommit(branch);
    const views = [commit ?? "", openCommit];
    expect((await timesOf(branch, views)).every((time) => (time ?? 0) > of)).toBe(true);
    expect(await branch.settings.change({ modified: "file" })).toEqual({ ok: true });
    expect(await timesOf(branch, views)).toEqual([of, of, of, of, of, of]);
    await evictDurableObject(branch);
    expect(await timesOf(branch, views)).toEqual([of, of, of, of, of, of]);
    // What is set otherwise leaves it, and it leaves that.
    expect(await branch.settings.change({ public: true })).toEqual({ ok: true });
    expect(await branch.settings.read()).toMatchObject({ public: true, modified: "file" });
    expect(await branch.settings.change({ modified: "branch" })).toEqual({ ok: true });
    const asked = await branch.files.read({ path: "a", modified: "file" });
    expect(asked.ok && asked.modifiedAt).toBeGreaterThan(of);
    await branch.settings.change({ modified: "file" });
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    expect(await branch.settings.read()).toMatchObject({ modified: null });
  });

  test("is not understood if a later release has set it, and then counts as set to nothing", async () => {
    const branch = await freshBranch();
    await branch.settings.change({ modified: "file" });
    await runInDurableObject(branch, (_, { storage }) => {
      storage.sql.exec("UPDATE settings SET modified = 'moon'");
    });
    await evictDurableObject(branch);
    expect(await branch.settings.read()).toMatchObject({ ok: true, modified: null });
  });
});
