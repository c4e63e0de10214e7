import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { expectRefsRight } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  chunked,
  commitFiles,
  committed,
  completion,
  drained,
  finished,
  freshBranch,
  freshBucket,
  inline,
  ledgerOf,
  listed,
  put,
  stage,
  startOpenCommit,
} from "./support.ts";

const NO_OPEN_COMMIT = { ok: false, reason: "no-such-open-commit" };

/** As if their time had come. */
function runOut(branch: BranchStub): Promise<void> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    sql.exec("UPDATE open_commits SET due = 0 WHERE due IS NOT NULL");
  });
}

describe("an open commit", () => {
  test("is seen only by calls that name it, and becomes one commit", async () => {
    const branch = await freshBranch();
    await put(branch, "old");
    await put(branch, "gone");
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["a", "b"], deletes: ["gone"] });
    expect(await listed(branch)).toEqual(["gone", "old"]);
    expect(await listed(branch, { openCommit })).toEqual(["a", "b", "old"]);
    expect(await branch.files.read({ path: "a" })).toEqual({ ok: false, reason: "no-such-file" });
    expect(await branch.files.read({ path: "a", openCommit })).toMatchObject({ size: 1, commit: openCommit });
    expect(await branch.files.read({ path: "gone", openCommit })).toEqual({
      ok: false,
      reason: "no-such-file",
    });
    expect(await branch.files.read({ path: "old", openCommit })).toMatchObject({ ok: true, size: 3 });
    const { commit } = await finished(branch, openCommit);
    expect(await branch.lifecycle.status()).toMatchObject({ head: commit });
    expect(await listed(branch)).toEqual(["a", "b", "old"]);
    const { events } = await branch.feed.read({ cursor: { generation: 1, seq: 2 }, limit: 10 });
    expect(events.map(({ id, changes }) => [id, changes.map(({ path }) => path)])).toEqual([
      [commit, ["a", "b", "gone"]],
    ]);
  });

  test("follows the branch until it is finished", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["a"] });
    await put(branch, "later");
    expect(await listed(branch, { openCommit })).toEqual(["a", "later"]);
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual(["a", "later"]);
  });

  test("keeps the last operation on each path", async () => {
    const branch = await freshBranch();
    await put(branch, "x", "old");
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["x", "y"] });
    await stage(branch, openCommit, { deletes: ["x", "y"] });
    await branch.files.put({
      openCommit,
      path: "x",
      content: inline("new"),
      attributes: { contentType: "t/x" },
    });
    expect(await branch.openCommits.status({ openCommit })).toMatchObject({ operations: 2, state: "open" });
    expect(await branch.files.read({ path: "x", openCommit })).toMatchObject({
      attributes: { contentType: "t/x" },
    });
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual(["x"]);
    expect(await branch.files.read({ path: "x" })).toMatchObject({ digest: inline("new").digest });
  });

  test("answers what it was made into, however often it is asked, and takes nothing more", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["a"] });
    const end = await finished(branch, openCommit);
    await put(branch, "b");
    expect(await branch.openCommits.finish({ openCommit })).toEqual(end);
    expect(await branch.openCommits.status({ openCommit })).toMatchObject({
      state: "finished",
      due: null,
      commit: end.commit,
    });
    expect(await branch.files.put({ openCommit, path: "c", content: inline("c"), attributes: {} })).toEqual(
      NO_OPEN_COMMIT,
    );
    expect(await branch.files.commit({ openCommit, operations: [{ delete: "a" }] })).toEqual(NO_OPEN_COMMIT);
    expect(await branch.files.list({ openCommit, prefix: "", limit: 1 })).toEqual(NO_OPEN_COMMIT);
    expect(await branch.openCommits.abort({ openCommit })).toEqual({ ok: true });
    expect(await listed(branch)).toEqual(["a", "b"]);
  });

  test("makes no commit if nothing would change", async () => {
    const branch = await freshBranch();
    const head = await put(branch, "a");
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["a"], deletes: ["never"] });
    expect(await finished(branch, openCommit)).toMatchObject({ commit: null });
    expect(await branch.lifecycle.status()).toMatchObject({ head });
    expect(await finished(branch, await startOpenCommit(branch))).toMatchObject({ commit: null });
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[1, 1]] });
  });

  test("that has a conflict when it is finished stays open, and can be mended", async () => {
    const branch = await freshBranch();
    await put(branch, "d/x");
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["d"] });
    const conflict = { ok: false, reason: "path-conflict", path: "d", other: "d/x" };
    expect(await branch.openCommits.finish({ openCommit })).toEqual(conflict);
    expect(await branch.openCommits.status({ openCommit })).toMatchObject({ state: "open" });
    await stage(branch, openCommit, { deletes: ["d/x"] });
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual(["d"]);
  });

  test("holds conditions against what it shows", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const openCommit = await startOpenCommit(branch);
    const anew = {
      openCommit,
      content: inline("2"),
      attributes: {},
      condition: { noneMatch: "any" },
    } as const;
    const failed = (path: string) => ({ ok: false, reason: "condition-failed", path });
    expect(await branch.files.put({ ...anew, path: "a" })).toEqual(failed("a"));
    expect(await branch.files.put({ ...anew, path: "b" })).toMatchObject({ ok: true, commit: null });
    expect(await branch.files.put({ ...anew, path: "b" })).toEqual(failed("b"));
    await stage(branch, openCommit, { deletes: ["a"] });
    expect(await branch.files.put({ ...anew, path: "a" })).toMatchObject({ ok: true });
    const missing = { delete: "c", condition: { match: "any" } } as const;
    expect(await branch.files.commit({ openCommit, operations: [missing] })).toEqual({
      ok: false,
      reason: "no-such-file",
      path: "c",
    });
    const answer = await branch.files.commit({
      openCommit,
      operations: [missing, { delete: "b" }],
      onFailedCondition: "leave-out",
    });
    expect(answer).toMatchObject({ ok: true, leftOut: [{ path: "c", reason: "no-such-file" }] });
    expect(await listed(branch, { openCommit })).toEqual(["a"]);
  });

  test("takes contents that came by an upload, and refuses what is not there", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    const content = chunked("big", ["b/1"]);
    await branch.uploads.add({ upload, contents: [content] });
    const { digest, size } = content;
    const lost = inline("nowhere");
    const operations = [
      { put: "big", digest, size },
      { put: "lost", digest: lost.digest, size: lost.size },
    ];
    expect(await branch.files.commit({ openCommit, upload, operations })).toEqual({
      ok: false,
      reason: "no-such-content",
      path: "lost",
    });
    expect(await branch.openCommits.status({ openCommit })).toMatchObject({ operations: 0 });
    expect(
      await branch.files.commit({ openCommit, upload, operations: operations.slice(0, 1) }),
    ).toMatchObject({
      ok: true,
      commit: null,
    });
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[3, 1]], uploads: 0, holds: 0, condemned: [] });
    await finished(branch, openCommit);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[3, 1]], blobs: [["b/1", 1]] });
  });

  test("keeps a content of an upload once for each path that is staged with it, however it was kept before", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const texts = { a: inline("a"), bb: inline("bb"), ccc: inline("ccc") };
    /** Stages paths with the texts of these names, out of an upload that brings some of them. */
    const stageFrom = async (brought: (keyof typeof texts)[], puts: Record<string, keyof typeof texts>) => {
      const opened = await branch.uploads.open({});
      if (!opened.ok) throw new Error(opened.reason);
      const { upload } = opened;
      await branch.uploads.add({ upload, contents: brought.map((name) => texts[name]) });
      const operations = Object.entries(puts).map(([path, name]) => {
        const { digest, size } = texts[name];
        return { put: path, digest, size };
      });
      committed(await branch.files.commit({ openCommit, upload, operations }));
      await expectRefsRight(branch);
      return (await ledgerOf(branch)).refs;
    };
    expect(await stageFrom(["a", "bb", "ccc"], { x: "a", y: "a", z: "bb" })).toEqual([
      [1, 2],
      [2, 1],
    ]);
    // The same bytes again at the same path; what is at another path already; what only the path has that is replaced.
    expect(await stageFrom(["a"], { x: "a" })).toEqual([
      [1, 2],
      [2, 1],
    ]);
    expect(await stageFrom(["ccc"], { v: "bb", w: "ccc" })).toEqual([
      [1, 2],
      [2, 2],
      [3, 1],
    ]);
    expect(await stageFrom(["a"], { w: "bb", x: "ccc", y: "ccc" })).toEqual([
      [2, 3],
      [3, 2],
    ]);
    await finished(branch, openCommit);
    await expectRefsRight(branch);
    expect((await ledgerOf(branch)).refs).toEqual([
      [2, 3],
      [3, 2],
    ]);
  });

  test("refuses paths that can't be, and more than one call takes", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    expect(
      await branch.files.put({ openCommit, path: "a//b", content: inline(""), attributes: {} }),
    ).toMatchObject({
      reason: "bad-path",
    });
    const operations = Array.from({ length: 10_001 }, (_, n) => ({ delete: `f${n}` }));
    expect(await branch.files.commit({ openCommit, operations })).toEqual({
      ok: false,
      reason: "too-many-operations",
    });
  });

  test("shows the time of what was last put into it", async () => {
    const branch = await freshBranch();
    await put(branch, "old");
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["new"] });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE open_commits SET writtenAt = 9e15");
    });
    const page = await branch.files.list({ openCommit, prefix: "", limit: 10, modified: "file" });
    const head = await branch.lifecycle.status();
    expect(page).toMatchObject({ modifiedAt: 9e15, entries: [{ path: "new", modifiedAt: 9e15 }, {}] });
    expect(page.ok && page.entries[1]).toMatchObject({ modifiedAt: head.ok && head.modifiedAt });
    expect(await branch.files.read({ openCommit, path: "old", modified: "file" })).toMatchObject({
      modifiedAt: head.ok && head.modifiedAt,
    });
    expect(await branch.files.read({ openCommit, path: "new" })).toMatchObject({ modifiedAt: 9e15 });
  });
});

describe("what an open commit keeps", () => {
  test("is let go when it is replaced, deleted or aborted", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const staged = async (path: string, blob: string) => {
      const opened = await branch.uploads.open({});
      if (!opened.ok) throw new Error(opened.reason);
      const content = chunked(blob, [blob]);
      await branch.files.put({ openCommit, path, content, attributes: {}, upload: opened.upload });
    };
    await staged("a", "b/1");
    await staged("a", "b/2");
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [["b/2", 1]], condemned: ["b/1"] });
    await stage(branch, openCommit, { deletes: ["a"] });
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [], condemned: ["b/1", "b/2"] });
    await staged("a", "b/3");
    await staged("b", "b/3");
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[3, 2]], blobs: [["b/3", 1]] });
    expect(await branch.openCommits.abort({ openCommit })).toEqual({ ok: true });
    expect(await branch.openCommits.status({ openCommit })).toEqual(NO_OPEN_COMMIT);
    expect(await branch.openCommits.abort({ openCommit })).toEqual({ ok: true });
    await drained(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [], condemned: ["b/1", "b/2", "b/3"] });
  });

  test("goes in slices, however much it is", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const operations = Array.from({ length: 2500 }, (_, n) => ({ delete: `f${n}` }));
    await branch.files.commit({ openCommit, operations });
    await branch.openCommits.abort({ openCommit });
    const left = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        Number(sql.exec("SELECT count(*) AS n FROM staged").one().n),
      );
    await drained(branch);
    expect(await left()).toBe(0);
    const sessions = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        Number(sql.exec("SELECT count(*) AS n FROM open_commits").one().n),
      );
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await sessions();
      })
      .toBe(0);
  });

  test("is let go when nothing is added for its time, and each write gives it another while", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch, 60_000);
    await runOut(branch);
    await stage(branch, openCommit, { puts: ["a"] });
    await runDurableObjectAlarm(branch);
    const status = await branch.openCommits.status({ openCommit });
    expect(status.ok && status.due).toBeGreaterThan(Date.now() - 60_000);
    await runOut(branch);
    await runDurableObjectAlarm(branch);
    expect(await branch.openCommits.status({ openCommit })).toEqual(NO_OPEN_COMMIT);
    expect(await branch.openCommits.finish({ openCommit })).toEqual(NO_OPEN_COMMIT);
    await drained(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [] });
  });

  test("is let go with the branch, whose next one knows nothing of it", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["a"] });
    await branch.lifecycle.destroy();
    expect(await branch.files.read({ openCommit, path: "a" })).toEqual(NO_OPEN_COMMIT);
    await branch.lifecycle.create();
    for (const answer of [
      await branch.files.read({ openCommit, path: "a" }),
      await branch.files.list({ openCommit, prefix: "", limit: 1 }),
      await branch.openCommits.status({ openCommit }),
      await branch.openCommits.finish({ openCommit }),
      await branch.files.put({ openCommit, path: "a", content: inline("a"), attributes: {} }),
      await branch.multipart.create({ openCommit, path: "a", attributes: {}, ttlMs: 1 }),
    ]) {
      expect(answer).toEqual(NO_OPEN_COMMIT);
    }
    await drained(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [] });
  });

  test("of a finished one is forgotten after a day, what it made is not", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["a"] });
    await finished(branch, openCommit);
    await runOut(branch);
    await runDurableObjectAlarm(branch);
    expect(await branch.openCommits.status({ openCommit })).toEqual(NO_OPEN_COMMIT);
    expect(await listed(branch)).toEqual(["a"]);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[1, 1]] });
  });
});

describe("opening", () => {
  test("needs a branch that everybody may write to", async () => {
    const branch = branchOf(freshBucket());
    expect(await branch.openCommits.start({ ttlMs: 1 })).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await branch.openCommits.status({ openCommit: "x" })).toEqual(NO_OPEN_COMMIT);
    await branch.output.claim({ pipeline: "p", uid: "u" });
    expect(await branch.openCommits.start({ ttlMs: 1 })).toEqual({ ok: false, reason: "pipeline-output" });
  });

  test("an open commit that never was is not found", async () => {
    const branch = await freshBranch();
    expect(await branch.openCommits.finish({ openCommit: "never" })).toEqual(NO_OPEN_COMMIT);
    expect(await branch.openCommits.abort({ openCommit: "never" })).toEqual({ ok: true });
    expect(await branch.files.read({ openCommit: "never", path: "a" })).toEqual(NO_OPEN_COMMIT);
  });
});

describe("a multipart upload into an open commit", () => {
  test("is listed with it alone, and its object becomes part of it", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const upload = await begin(branch, { openCommit, path: "big" });
    const other = await begin(branch, { path: "other" });
    const uploads = async (of: { openCommit?: string }) => {
      const page = await branch.multipart.list({ ...of, prefix: "", limit: 10 });
      return page.ok && page.uploads.map((each) => each.upload);
    };
    expect(await uploads({ openCommit })).toEqual([upload]);
    expect(await uploads({})).toEqual([other]);
    const part = chunked("part", ["b/1"]);
    await branch.multipart.addPart({ upload, number: 1, content: part });
    const asked = completion(upload, { 1: part });
    expect(await branch.multipart.complete(asked)).toMatchObject({ ok: true, path: "big", commit: null });
    expect(await branch.multipart.complete(asked)).toMatchObject({ ok: true, path: "big", commit: null });
    expect(await listed(branch)).toEqual([]);
    expect(await listed(branch, { openCommit })).toEqual(["big"]);
    await finished(branch, openCommit);
    expect(await branch.files.read({ path: "big" })).toMatchObject({ size: 4 });
    expect(await ledgerOf(branch)).toMatchObject({ condemned: [], blobs: [["b/1", 1]] });
  });

  test("can't be completed when that is finished or gone", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const upload = await begin(branch, { openCommit, path: "big" });
    const part = chunked("part", ["b/1"]);
    await branch.multipart.addPart({ upload, number: 1, content: part });
    await finished(branch, openCommit);
    // It ended with the open commit.
    expect(await branch.multipart.complete(completion(upload, { 1: part }))).toEqual({
      ok: false,
      reason: "no-such-upload",
    });
    expect(await branch.multipart.create({ openCommit, path: "x", attributes: {}, ttlMs: 1 })).toEqual(
      NO_OPEN_COMMIT,
    );
    expect(await listed(branch)).toEqual([]);
  });
});

describe("beside each other", () => {
  test("open commits do not see each other; the later one to finish wins a path", async () => {
    const branch = await freshBranch();
    const [one, two] = [await startOpenCommit(branch), await startOpenCommit(branch)];
    await branch.files.put({ openCommit: one, path: "a", content: inline("1"), attributes: {} });
    await branch.files.put({ openCommit: two, path: "a", content: inline("22"), attributes: {} });
    await stage(branch, two, { puts: ["b"] });
    expect(await listed(branch, { openCommit: one })).toEqual(["a"]);
    await finished(branch, two);
    await finished(branch, one);
    expect(await branch.files.read({ path: "a" })).toMatchObject({ size: 1 });
    expect(await listed(branch)).toEqual(["a", "b"]);
  });

  test("puts into an open commit and to the branch that come together are told apart", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const paths = Array.from({ length: 40 }, (_, n) => `p${String(n).padStart(2, "0")}`);
    const answers = await Promise.all(
      paths.map((path, n) =>
        branch.files.put({
          path,
          content: inline(path),
          attributes: {},
          ...(n % 2 === 0 && { openCommit }),
        }),
      ),
    );
    expect(answers.map((answer) => committed(answer) === null)).toEqual(paths.map((_, n) => n % 2 === 0));
    expect(await listed(branch)).toEqual(paths.filter((_, n) => n % 2 === 1));
    expect(await listed(branch, { openCommit })).toEqual(paths);
  });
});

test("a commit of many changes and an open commit of the same make the same tree", async () => {
  const [plain, open] = [await freshBranch(), await freshBranch()];
  for (const branch of [plain, open]) await commitFiles(branch, { puts: { "d/a": "1", "d/b": "2", e: "3" } });
  const openCommit = await startOpenCommit(open);
  const operations = [{ delete: "d/a" }, { delete: "e" }, { put: "e/f", ...without(inline("2")) }];
  committed(await plain.files.commit({ operations }));
  committed(await open.files.commit({ openCommit, operations }));
  await finished(open, openCommit);
  expect(await listed(open)).toEqual(await listed(plain));
  const at = { generation: 1, seq: 2, path: "" };
  expect(await open.feed.fingerprint(at)).toEqual(await plain.feed.fingerprint(at));
  expect(await ledgerOf(open)).toEqual(await ledgerOf(plain));
});

function without({ digest, size }: { digest: string; size: number }) {
  return { digest, size };
}
