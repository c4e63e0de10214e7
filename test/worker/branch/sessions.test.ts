import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
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
  openSession,
  put,
  stage,
} from "./support.ts";

const NO_SESSION = { ok: false, reason: "no-such-session" };

/** As if their time had come. */
function runOut(branch: BranchStub): Promise<void> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    sql.exec("UPDATE sessions SET due = 0 WHERE due IS NOT NULL");
  });
}

describe("an open commit", () => {
  test("is seen by those who name it alone, and published as one commit", async () => {
    const branch = await freshBranch();
    await put(branch, "old");
    await put(branch, "gone");
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["a", "b"], deletes: ["gone"] });
    expect(await listed(branch)).toEqual(["gone", "old"]);
    expect(await listed(branch, { session })).toEqual(["a", "b", "old"]);
    expect(await branch.read({ path: "a" })).toEqual({ ok: false, reason: "no-such-file" });
    expect(await branch.read({ path: "a", session })).toMatchObject({ size: 1, commit: session });
    expect(await branch.read({ path: "gone", session })).toEqual({ ok: false, reason: "no-such-file" });
    expect(await branch.read({ path: "old", session })).toMatchObject({ ok: true, size: 3 });
    const { commit } = await finished(branch, session);
    expect(await branch.status()).toMatchObject({ head: commit });
    expect(await listed(branch)).toEqual(["a", "b", "old"]);
    const { events } = await branch.feed({ cursor: { generation: 1, seq: 2 }, limit: 10 });
    expect(events.map(({ id, changes }) => [id, changes.map(({ path }) => path)])).toEqual([
      [commit, ["a", "b", "gone"]],
    ]);
  });

  test("follows the branch until it is published", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["a"] });
    await put(branch, "later");
    expect(await listed(branch, { session })).toEqual(["a", "later"]);
    await finished(branch, session);
    expect(await listed(branch)).toEqual(["a", "later"]);
  });

  test("keeps the last operation on each path", async () => {
    const branch = await freshBranch();
    await put(branch, "x", "old");
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["x", "y"] });
    await stage(branch, session, { deletes: ["x", "y"] });
    await branch.put({ session, path: "x", content: inline("new"), attributes: { contentType: "t/x" } });
    expect(await branch.session({ session })).toMatchObject({ operations: 2, state: "open" });
    expect(await branch.read({ path: "x", session })).toMatchObject({ attributes: { contentType: "t/x" } });
    await finished(branch, session);
    expect(await listed(branch)).toEqual(["x"]);
    expect(await branch.read({ path: "x" })).toMatchObject({ digest: inline("new").digest });
  });

  test("answers what it was made into, however often it is asked, and takes nothing more", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["a"] });
    const end = await finished(branch, session);
    await put(branch, "b");
    expect(await branch.finishSession({ session })).toEqual(end);
    expect(await branch.session({ session })).toMatchObject({
      state: "finished",
      due: null,
      commit: end.commit,
    });
    expect(await branch.put({ session, path: "c", content: inline("c"), attributes: {} })).toEqual(
      NO_SESSION,
    );
    expect(await branch.commit({ session, operations: [{ delete: "a" }] })).toEqual(NO_SESSION);
    expect(await branch.list({ session, prefix: "", limit: 1 })).toEqual(NO_SESSION);
    expect(await branch.abortSession({ session })).toEqual({ ok: true });
    expect(await listed(branch)).toEqual(["a", "b"]);
  });

  test("makes no commit where nothing would change", async () => {
    const branch = await freshBranch();
    const head = await put(branch, "a");
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["a"], deletes: ["never"] });
    expect(await finished(branch, session)).toMatchObject({ commit: null });
    expect(await branch.status()).toMatchObject({ head });
    expect(await finished(branch, await openSession(branch))).toMatchObject({ commit: null });
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[1, 1]] });
  });

  test("that has a conflict when it is finished stays open, and can be mended", async () => {
    const branch = await freshBranch();
    await put(branch, "d/x");
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["d"] });
    const conflict = { ok: false, reason: "path-conflict", path: "d", other: "d/x" };
    expect(await branch.finishSession({ session })).toEqual(conflict);
    expect(await branch.session({ session })).toMatchObject({ state: "open" });
    await stage(branch, session, { deletes: ["d/x"] });
    await finished(branch, session);
    expect(await listed(branch)).toEqual(["d"]);
  });

  test("holds conditions against what it shows", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const session = await openSession(branch);
    const anew = { session, content: inline("2"), attributes: {}, condition: { noneMatch: "any" } } as const;
    const failed = (path: string) => ({ ok: false, reason: "condition-failed", path });
    expect(await branch.put({ ...anew, path: "a" })).toEqual(failed("a"));
    expect(await branch.put({ ...anew, path: "b" })).toMatchObject({ ok: true, commit: null });
    expect(await branch.put({ ...anew, path: "b" })).toEqual(failed("b"));
    await stage(branch, session, { deletes: ["a"] });
    expect(await branch.put({ ...anew, path: "a" })).toMatchObject({ ok: true });
    const missing = { delete: "c", condition: { match: "any" } } as const;
    expect(await branch.commit({ session, operations: [missing] })).toEqual({
      ok: false,
      reason: "no-such-file",
      path: "c",
    });
    const answer = await branch.commit({
      session,
      operations: [missing, { delete: "b" }],
      onFailedCondition: "leave-out",
    });
    expect(answer).toMatchObject({ ok: true, leftOut: [{ path: "c", reason: "no-such-file" }] });
    expect(await listed(branch, { session })).toEqual(["a"]);
  });

  test("takes contents that came by an upload, and refuses what is not there", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    const opened = await branch.openUpload({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    const content = chunked("big", ["b/1"]);
    await branch.addContents({ upload, contents: [content] });
    const { digest, size } = content;
    const lost = inline("nowhere");
    const operations = [
      { put: "big", digest, size },
      { put: "lost", digest: lost.digest, size: lost.size },
    ];
    expect(await branch.commit({ session, upload, operations })).toEqual({
      ok: false,
      reason: "no-such-content",
      path: "lost",
    });
    expect(await branch.session({ session })).toMatchObject({ operations: 0 });
    expect(await branch.commit({ session, upload, operations: operations.slice(0, 1) })).toMatchObject({
      ok: true,
      commit: null,
    });
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[3, 1]], uploads: 0, holds: 0, condemned: [] });
    await finished(branch, session);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[3, 1]], blobs: [["b/1", 1]] });
  });

  test("refuses paths that can't be, and more than one call takes", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    expect(await branch.put({ session, path: "a//b", content: inline(""), attributes: {} })).toMatchObject({
      reason: "bad-path",
    });
    const operations = Array.from({ length: 10_001 }, (_, n) => ({ delete: `f${n}` }));
    expect(await branch.commit({ session, operations })).toEqual({
      ok: false,
      reason: "too-many-operations",
    });
  });

  test("shows the time of what was last put into it", async () => {
    const branch = await freshBranch();
    await put(branch, "old");
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["new"] });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE sessions SET written_at = 9e15");
    });
    const page = await branch.list({ session, prefix: "", limit: 10, modified: "file" });
    const head = await branch.status();
    expect(page).toMatchObject({ modifiedAt: 9e15, entries: [{ path: "new", modifiedAt: 9e15 }, {}] });
    expect(page.ok && page.entries[1]).toMatchObject({ modifiedAt: head.ok && head.modifiedAt });
    expect(await branch.read({ session, path: "old", modified: "file" })).toMatchObject({
      modifiedAt: head.ok && head.modifiedAt,
    });
    expect(await branch.read({ session, path: "new" })).toMatchObject({ modifiedAt: 9e15 });
  });
});

describe("what an open commit keeps", () => {
  test("is let go when it is replaced, deleted or aborted", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    const staged = async (path: string, blob: string) => {
      const opened = await branch.openUpload({});
      if (!opened.ok) throw new Error(opened.reason);
      const content = chunked(blob, [blob]);
      await branch.put({ session, path, content, attributes: {}, upload: opened.upload });
    };
    await staged("a", "b/1");
    await staged("a", "b/2");
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [["b/2", 1]], condemned: ["b/1"] });
    await stage(branch, session, { deletes: ["a"] });
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [], condemned: ["b/1", "b/2"] });
    await staged("a", "b/3");
    await staged("b", "b/3");
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[3, 2]], blobs: [["b/3", 1]] });
    expect(await branch.abortSession({ session })).toEqual({ ok: true });
    expect(await branch.session({ session })).toEqual(NO_SESSION);
    expect(await branch.abortSession({ session })).toEqual({ ok: true });
    await drained(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [], condemned: ["b/1", "b/2", "b/3"] });
  });

  test("goes in slices, however much it is", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    const operations = Array.from({ length: 2500 }, (_, n) => ({ delete: `f${n}` }));
    await branch.commit({ session, operations });
    await branch.abortSession({ session });
    const left = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        Number(sql.exec("SELECT count(*) AS n FROM staged").one().n),
      );
    await drained(branch);
    expect(await left()).toBe(0);
    await runDurableObjectAlarm(branch);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      expect(sql.exec("SELECT count(*) AS n FROM sessions").one()).toEqual({ n: 0 });
    });
  });

  test("is let go when nothing is added for its time, and each write gives it another while", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch, 1000);
    await runOut(branch);
    await stage(branch, session, { puts: ["a"] });
    await runDurableObjectAlarm(branch);
    const status = await branch.session({ session });
    expect(status.ok && status.due).toBeGreaterThan(Date.now() - 60_000);
    await runOut(branch);
    await runDurableObjectAlarm(branch);
    expect(await branch.session({ session })).toEqual(NO_SESSION);
    expect(await branch.finishSession({ session })).toEqual(NO_SESSION);
    await drained(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [] });
  });

  test("is let go with the branch, whose next one knows nothing of it", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["a"] });
    await branch.destroy();
    expect(await branch.read({ session, path: "a" })).toEqual(NO_SESSION);
    await branch.create();
    for (const answer of [
      await branch.read({ session, path: "a" }),
      await branch.list({ session, prefix: "", limit: 1 }),
      await branch.session({ session }),
      await branch.finishSession({ session }),
      await branch.put({ session, path: "a", content: inline("a"), attributes: {} }),
      await branch.createMultipart({ session, path: "a", attributes: {}, ttlMs: 1 }),
    ]) {
      expect(answer).toEqual(NO_SESSION);
    }
    await drained(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [] });
  });

  test("of a finished one is forgotten after a day, what it made is not", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    await stage(branch, session, { puts: ["a"] });
    await finished(branch, session);
    await runOut(branch);
    await runDurableObjectAlarm(branch);
    expect(await branch.session({ session })).toEqual(NO_SESSION);
    expect(await listed(branch)).toEqual(["a"]);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[1, 1]] });
  });
});

describe("opening", () => {
  test("needs a branch that everybody may write to", async () => {
    const branch = branchOf(freshBucket());
    expect(await branch.openSession({ ttlMs: 1 })).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await branch.session({ session: "x" })).toEqual(NO_SESSION);
    await branch.claim({ pipeline: "p", uid: "u" });
    expect(await branch.openSession({ ttlMs: 1 })).toEqual({ ok: false, reason: "pipeline-output" });
  });

  test("a session that never was is none", async () => {
    const branch = await freshBranch();
    expect(await branch.finishSession({ session: "never" })).toEqual(NO_SESSION);
    expect(await branch.abortSession({ session: "never" })).toEqual({ ok: true });
    expect(await branch.read({ session: "never", path: "a" })).toEqual(NO_SESSION);
  });
});

describe("a multipart upload into an open commit", () => {
  test("is listed with it alone, and its object becomes part of it", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    const upload = await begin(branch, { session, path: "big" });
    const other = await begin(branch, { path: "other" });
    const uploads = async (of: { session?: string }) => {
      const page = await branch.listMultiparts({ ...of, prefix: "", limit: 10 });
      return page.ok && page.uploads.map((each) => each.upload);
    };
    expect(await uploads({ session })).toEqual([upload]);
    expect(await uploads({})).toEqual([other]);
    const part = chunked("part", ["b/1"]);
    await branch.addPart({ upload, number: 1, content: part });
    const asked = completion(upload, { 1: part });
    expect(await branch.completeMultipart(asked)).toMatchObject({ ok: true, path: "big", commit: null });
    expect(await branch.completeMultipart(asked)).toMatchObject({ ok: true, path: "big", commit: null });
    expect(await listed(branch)).toEqual([]);
    expect(await listed(branch, { session })).toEqual(["big"]);
    await finished(branch, session);
    expect(await branch.read({ path: "big" })).toMatchObject({ size: 4 });
    expect(await ledgerOf(branch)).toMatchObject({ condemned: [], blobs: [["b/1", 1]] });
  });

  test("can't be completed when that is published or gone", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    const upload = await begin(branch, { session, path: "big" });
    const part = chunked("part", ["b/1"]);
    await branch.addPart({ upload, number: 1, content: part });
    await finished(branch, session);
    expect(await branch.completeMultipart(completion(upload, { 1: part }))).toEqual(NO_SESSION);
    expect(await branch.createMultipart({ session, path: "x", attributes: {}, ttlMs: 1 })).toEqual(
      NO_SESSION,
    );
    expect(await listed(branch)).toEqual([]);
  });
});

describe("beside each other", () => {
  test("open commits do not see each other; the later one to finish wins a path", async () => {
    const branch = await freshBranch();
    const [one, two] = [await openSession(branch), await openSession(branch)];
    await branch.put({ session: one, path: "a", content: inline("1"), attributes: {} });
    await branch.put({ session: two, path: "a", content: inline("22"), attributes: {} });
    await stage(branch, two, { puts: ["b"] });
    expect(await listed(branch, { session: one })).toEqual(["a"]);
    await finished(branch, two);
    await finished(branch, one);
    expect(await branch.read({ path: "a" })).toMatchObject({ size: 1 });
    expect(await listed(branch)).toEqual(["a", "b"]);
  });

  test("puts into an open commit and to the branch that come together are told apart", async () => {
    const branch = await freshBranch();
    const session = await openSession(branch);
    const paths = Array.from({ length: 40 }, (_, n) => `p${String(n).padStart(2, "0")}`);
    const answers = await Promise.all(
      paths.map((path, n) =>
        branch.put({
          path,
          content: inline(path),
          attributes: {},
          ...(n % 2 === 0 && { session }),
        }),
      ),
    );
    expect(answers.map((answer) => committed(answer) === null)).toEqual(paths.map((_, n) => n % 2 === 0));
    expect(await listed(branch)).toEqual(paths.filter((_, n) => n % 2 === 1));
    expect(await listed(branch, { session })).toEqual(paths);
  });
});

test("a commit of many changes and a session of the same make the same tree", async () => {
  const [plain, open] = [await freshBranch(), await freshBranch()];
  for (const branch of [plain, open]) await commitFiles(branch, { puts: { "d/a": "1", "d/b": "2", e: "3" } });
  const session = await openSession(open);
  const operations = [{ delete: "d/a" }, { delete: "e" }, { put: "e/f", ...without(inline("2")) }];
  committed(await plain.commit({ operations }));
  committed(await open.commit({ session, operations }));
  await finished(open, session);
  expect(await listed(open)).toEqual(await listed(plain));
  const at = { generation: 1, seq: 2, path: "" };
  expect(await open.fingerprint(at)).toEqual(await plain.fingerprint(at));
  expect(await ledgerOf(open)).toEqual(await ledgerOf(plain));
});

function without({ digest, size }: { digest: string; size: number }) {
  return { digest, size };
}
