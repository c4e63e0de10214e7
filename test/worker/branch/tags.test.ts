import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { parseBucketName } from "../../../protocol/names.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import {
  allTold,
  type BranchStub,
  branchOf,
  freshBranch,
  freshBucket,
  listed,
  put,
  stage,
  startOpenCommit,
} from "./support.ts";

interface Tagged {
  readonly bucket: string;
  readonly branch: BranchStub;
  readonly first: string;
  readonly second: string;
}

/** A branch with two commits: `a`, then `b`. */
async function twoCommits(): Promise<Tagged> {
  const bucket = freshBucket();
  const branch = await freshBranch(bucket);
  const [first, second] = [await put(branch, "a"), await put(branch, "b")];
  return { bucket, branch, first: first ?? "", second: second ?? "" };
}

/** What the catalogue lists for the branch's repo: `<tag>.<branch>` and its commit. */
async function catalogued(bucket: string): Promise<Record<string, string>> {
  const repo = parseBucketName(bucket)?.repo ?? "";
  const rows = await openCatalogue(env.DB).tags.list({ repo, limit: 1000 });
  return Object.fromEntries(rows.map(({ name, branch, commit }) => [`${name}.${branch}`, commit]));
}

/** Makes the catalogue's copies of tags unwritable while `work` runs; branches still arrive. */
async function withoutTagCopies<T>(work: () => Promise<T>): Promise<T> {
  const deny = "BEGIN SELECT RAISE(ABORT, 'can not be written'); END";
  await env.DB.prepare(`CREATE TRIGGER tags_away BEFORE INSERT ON tags ${deny}`).run();
  try {
    return await work();
  } finally {
    await env.DB.exec("DROP TRIGGER tags_away");
  }
}

/** The process dies, and the alarm of the next one tells what waits. */
async function restarted(branch: BranchStub): Promise<void> {
  await evictDurableObject(branch);
  await allTold(branch);
}

/** The process dies, and the alarm of the next one rings while nobody can be told. It may have done so by itself. */
async function restartedInVain(branch: BranchStub): Promise<void> {
  await runInDurableObject(branch, (_, { storage }) => void storage.sql.exec("UPDATE outbox SET due = 0"));
  await evictDurableObject(branch);
  await runDurableObjectAlarm(branch);
}

describe("a tag", () => {
  test("names the newest commit, or the one that is named by its id or by another tag, and reads as that commit", async () => {
    const { branch, bucket, first, second } = await twoCommits();
    expect(await branch.tags.create({ name: "now", force: false })).toEqual({
      ok: true,
      name: "now",
      commit: second,
      change: "made",
      before: null,
    });
    expect(await branch.tags.create({ name: "v1", commit: first, force: false })).toMatchObject({
      commit: first,
    });
    expect(await branch.tags.create({ name: "v1b", commit: "v1", force: false })).toMatchObject({
      commit: first,
    });
    expect(await branch.tags.find({ name: "v1" })).toMatchObject({ ok: true, commit: first });
    for (const name of ["v1", "v1b", first])
      expect(await listed(branch, { openCommit: name })).toEqual(["a"]);
    expect(await listed(branch, { openCommit: "now" })).toEqual(["a", "b"]);
    expect(await branch.files.read({ path: "a", openCommit: "v1" })).toMatchObject({
      ok: true,
      commit: first,
    });
    expect(await branch.files.read({ path: "b", openCommit: "v1" })).toMatchObject({
      reason: "no-such-file",
    });
    expect(await catalogued(bucket)).toEqual({
      "now.master": second,
      "v1.master": first,
      "v1b.master": first,
    });
  });

  test("moves only by force, and set again to its commit it stays as it is", async () => {
    const { branch, bucket, first, second } = await twoCommits();
    await branch.tags.create({ name: "v1", commit: first, force: false });
    expect(await branch.tags.create({ name: "v1", commit: second, force: false })).toEqual({
      ok: false,
      reason: "tag-exists",
      commit: first,
    });
    expect(await branch.tags.create({ name: "v1", commit: first, force: false })).toMatchObject({
      change: "none",
    });
    expect(await branch.tags.create({ name: "v1", commit: second, force: true })).toMatchObject({
      change: "moved",
      before: first,
    });
    expect([await listed(branch, { openCommit: "v1" }), await catalogued(bucket)]).toEqual([
      ["a", "b"],
      { "v1.master": second },
    ]);
  });

  test("that is deleted is gone at once, and may be made again", async () => {
    const { branch, bucket, first, second } = await twoCommits();
    await branch.tags.create({ name: "v1", commit: first, force: false });
    expect(await branch.tags.delete({ name: "v1" })).toEqual({ ok: true });
    expect(await branch.tags.delete({ name: "v1" })).toEqual({ ok: false, reason: "no-such-tag" });
    expect(await branch.tags.find({ name: "v1" })).toEqual({ ok: false, reason: "no-such-tag" });
    expect(await branch.files.list({ prefix: "", limit: 1, openCommit: "v1" })).toMatchObject({ ok: false });
    expect(await catalogued(bucket)).toEqual({});
    await branch.tags.create({ name: "v1", commit: second, force: false });
    expect(await catalogued(bucket)).toEqual({ "v1.master": second });
  });

  test("of what is not there is refused, and leaves nothing", async () => {
    const { branch, bucket } = await twoCommits();
    const never = branchOf(freshBucket());
    const empty = await freshBranch();
    const set = { name: "v1", force: true };
    expect(await branch.tags.create({ ...set, commit: "01ARZ3NDEKTSV4RRFFQ69G5FAV" })).toMatchObject({
      reason: "no-such-version",
    });
    expect(await branch.tags.create({ ...set, commit: "v0" })).toMatchObject({ reason: "no-such-version" });
    expect(await empty.tags.create(set)).toMatchObject({ reason: "no-commit" });
    expect(await never.tags.create(set)).toMatchObject({ reason: "no-such-branch" });
    expect(await never.tags.find({ name: "v1" })).toMatchObject({ reason: "no-such-branch" });
    expect(await never.tags.delete({ name: "v1" })).toMatchObject({ reason: "no-such-branch" });
    expect(await catalogued(bucket)).toEqual({});
  });

  test("ends with its branch, in the catalogue too, and the next branch of the name begins without", async () => {
    const { branch, bucket, first } = await twoCommits();
    for (const name of ["v1", "v2"]) await branch.tags.create({ name, commit: first, force: false });
    await branch.lifecycle.destroy();
    expect(await catalogued(bucket)).toEqual({});
    expect(await branch.tags.find({ name: "v1" })).toMatchObject({ reason: "no-such-branch" });
    await branch.lifecycle.create();
    expect([await catalogued(bucket), await branch.tags.find({ name: "v1" })]).toEqual([
      {},
      { ok: false, reason: "no-such-tag" },
    ]);
    const again = await put(branch, "c");
    await branch.tags.create({ name: "v1", force: false });
    expect(await catalogued(bucket)).toEqual({ "v1.master": again });
  });
});

describe("a view", () => {
  test("is found by its id or tag, and said to be an open commit or a commit", async () => {
    const { branch, first } = await twoCommits();
    const openCommit = await startOpenCommit(branch);
    await branch.tags.create({ name: "v1", commit: first, force: false });
    const log = await branch.history.list({ limit: 10 });
    const created = log.ok ? log.commits.find(({ id }) => id === first)?.createdAt : undefined;
    expect(await branch.files.view({ view: first })).toEqual({
      ok: true,
      shows: "commit",
      modifiedAt: created,
    });
    expect(await branch.files.view({ view: "v1" })).toEqual({
      ok: true,
      shows: "commit",
      modifiedAt: created,
    });
    expect(await branch.files.view({ view: openCommit })).toMatchObject({ ok: true, shows: "open-commit" });
    for (const view of ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "v2"]) {
      expect(await branch.files.view({ view })).toEqual({ ok: false, reason: "no-such-open-commit" });
    }
    expect(await branchOf(freshBucket()).files.view({ view: first })).toMatchObject({ ok: false });
  });

  test("that is a commit takes no write, before any of its bytes come", async () => {
    const { branch, first } = await twoCommits();
    await branch.tags.create({ name: "v1", commit: first, force: false });
    for (const openCommit of [first, "v1"]) {
      const refused = [
        await branch.uploads.open({ openCommit }),
        await branch.files.commit({ openCommit, operations: [{ delete: "a" }] }),
        await branch.multipart.create({ openCommit, path: "x", attributes: {}, ttlMs: 1000 }),
      ];
      expect(refused).toEqual(refused.map(() => ({ ok: false, reason: "read-only" })));
    }
    expect(await branch.uploads.open({ openCommit: "v2" })).toMatchObject({ reason: "no-such-open-commit" });
    const openCommit = await startOpenCommit(branch);
    expect(await branch.uploads.open({ openCommit })).toMatchObject({ ok: true });
    await stage(branch, openCommit, { puts: ["c"] });
  });
});

describe("what the catalogue could not be told of tags", () => {
  test("is refused as such though the branch has it, and asked again it is told", async () => {
    const { branch, bucket, first } = await twoCommits();
    const set = { name: "v1", commit: first, force: false };
    await withoutTagCopies(async () => {
      expect(await branch.tags.create(set)).toEqual({ ok: false, reason: "catalogue-unavailable" });
    });
    expect(await branch.tags.find({ name: "v1" })).toMatchObject({ ok: true, commit: first });
    expect(await catalogued(bucket)).toEqual({});
    expect(await branch.tags.create(set)).toMatchObject({ ok: true, change: "none" });
    expect(await catalogued(bucket)).toEqual({ "v1.master": first });
  });

  test("is told by the alarm after a crash: made, moved and deleted, each as it ends", async () => {
    const { branch, bucket, first, second } = await twoCommits();
    for (const name of ["gone", "moved"]) await branch.tags.create({ name, commit: first, force: false });
    await withoutTagCopies(async () => {
      await branch.tags.create({ name: "made", commit: first, force: false });
      await branch.tags.create({ name: "moved", commit: second, force: true });
      await branch.tags.delete({ name: "gone" });
      await restartedInVain(branch);
    });
    expect(await catalogued(bucket)).toEqual({ "gone.master": first, "moved.master": first });
    await restarted(branch);
    expect(await catalogued(bucket)).toEqual({ "made.master": first, "moved.master": second });
  });

  test.each([
    ["before the change was written", /INSERT OR REPLACE INTO tags/, false],
    ["before the news of it was written down", /INSERT OR REPLACE INTO tag_news/, false],
    ["before the outbox had it", /INSERT INTO outbox/, false],
    ["when the catalogue knew, and before that was noted", /DELETE FROM tag_news/, true],
    ["when that was noted, and before the outbox was told", /DELETE FROM outbox/, true],
  ])("is whole or not at all after a crash %s", async (_moment, statement, isThere) => {
    const { branch, bucket, first, second } = await twoCommits();
    await branch.tags.create({ name: "v1", commit: first, force: false });
    const execute = Sql.prototype.execute;
    const crash = vi.spyOn(Sql.prototype, "execute").mockImplementation(function (this: Sql, text, values) {
      if (statement.test(text)) throw new Error("crash");
      return execute.call(this, text, values);
    });
    try {
      await branch.tags.create({ name: "v1", commit: second, force: true }).catch(() => {});
    } finally {
      crash.mockRestore();
    }
    if (isThere) await restarted(branch);
    else await evictDurableObject(branch);
    const there = isThere ? second : first;
    expect(await branch.tags.find({ name: "v1" })).toMatchObject({ commit: there });
    expect(await catalogued(bucket)).toEqual({ "v1.master": there });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      expect(sql.exec("SELECT count(*) AS n FROM tag_news").one()).toEqual({ n: 0 });
      expect(sql.exec("SELECT count(*) AS n FROM outbox").one()).toEqual({ n: 0 });
    });
  });

  test("of a branch that was deleted meanwhile is never told", async () => {
    const { branch, bucket, first } = await twoCommits();
    await branch.tags.create({ name: "old", commit: first, force: false });
    await withoutTagCopies(
      async () => void (await branch.tags.create({ name: "late", commit: first, force: false })),
    );
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    expect(await catalogued(bucket)).toEqual({});
    const { results } = await env.DB.prepare("SELECT name FROM tags WHERE repo = ?1")
      .bind(parseBucketName(bucket)?.repo ?? "")
      .all();
    expect(results).toEqual([]);
  });

  test("is told in pages if it is much", async () => {
    const { branch, bucket, first } = await twoCommits();
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      for (let n = 0; n < 120; n++) {
        sql.exec('INSERT INTO tags (gen, name, "commit", createdAt) VALUES (1, ?, ?, 1)', `t${n}`, first);
        sql.exec("INSERT INTO tag_news (name, version) VALUES (?, 1)", `t${n}`);
      }
    });
    await branch.tags.create({ name: "last", commit: first, force: false });
    expect(Object.keys(await catalogued(bucket))).toHaveLength(121);
  });
});
