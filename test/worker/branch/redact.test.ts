import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Annotation } from "../../../worker/branch/contract/answers.ts";
import type { CommitEntry } from "../../../worker/branch/contract/history.ts";
import { ready } from "./fork-support.ts";
import { crashAt, pagesOf } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  chunked,
  committed,
  completion,
  DAY_MS,
  freshBranch,
  freshBucket,
  inline,
  put,
} from "./support.ts";

/** What must be nowhere. */
const SECRET = "hunter2-of-ada";
const SAID: Annotation = { key: "k1", message: `the password is ${SECRET}`, meta: { who: SECRET } };
const NOTHING_SAID = { redacted: null, change: "none" };

/** Puts a file, and says something of it. */
async function said(branch: BranchStub, path = "a", annotation: Annotation = SAID): Promise<string> {
  return committed(await branch.files.put({ path, content: inline(path), attributes: {}, annotation })) ?? "";
}

async function entryOf(branch: BranchStub, commit: string): Promise<CommitEntry> {
  const entry = await branch.history.commit({ commit });
  if (!entry.ok) throw new Error(entry.reason);
  const { ok: _, ...rest } = entry;
  return rest;
}

/** The tables of a branch that have rows with the secret. */
function tablesWithSecret(branch: BranchStub): Promise<string[]> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    const tables = sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'",
      )
      .toArray();
    return tables
      .map(({ name }) => name)
      .filter((name) => JSON.stringify(sql.exec(`SELECT * FROM "${name}"`).toArray()).includes(SECRET));
  });
}

/** Whether the branch is to be written anew. */
function owesRewrite(branch: BranchStub): Promise<boolean> {
  return runInDurableObject(
    branch,
    (_, { storage: { sql } }) => sql.exec("SELECT 1 FROM rewrite").toArray().length > 0,
  );
}

/** Redacts a commit that something was said of. */
async function redact(branch: BranchStub, commit: string, key = "k9"): Promise<{ at: number; by: string }> {
  const before = Date.now();
  const done = await branch.history.redact({ commit, key });
  if (!done.ok || !done.redacted) throw new Error(JSON.stringify(done));
  expect(done).toMatchObject({ commit, change: "redacted", redacted: { by: key } });
  expect(done.redacted.at).toBeGreaterThanOrEqual(before);
  return done.redacted;
}

describe("redacting a commit", () => {
  test("takes out the message and the metadata, and leaves all else as it was", async () => {
    const branch = await freshBranch();
    await said(branch, "a", { key: "k0", message: "before" });
    const commit = await said(branch, "b");
    await said(branch, "c", { key: "k2", message: "after" });
    const [entry, log] = [await entryOf(branch, commit), await branch.history.list({ limit: 10 })];
    const file = await branch.files.read({ path: "b", commit });
    const redacted = await redact(branch, commit);
    expect(await entryOf(branch, commit)).toEqual({ ...entry, annotation: { key: "k1", redacted } });
    const after = await branch.history.list({ limit: 10 });
    if (!after.ok || !log.ok) throw new Error("no log");
    expect(after.commits.filter(({ id }) => id !== commit)).toEqual(
      log.commits.filter(({ id }) => id !== commit),
    );
    expect(after.commits[1]).toEqual({ ...entry, annotation: { key: "k1", redacted } });
    expect(await branch.files.read({ path: "b", commit })).toEqual(file);
    expect(await tablesWithSecret(branch)).toEqual([]);
    expect(await owesRewrite(branch)).toBe(true);
  });

  test("asked again changes nothing, whoever asks; named by a tag it is the same commit", async () => {
    const branch = await freshBranch();
    const commit = await said(branch);
    await branch.tags.create({ name: "v1", commit, force: false });
    const redacted = await redact(branch, commit);
    expect(await branch.history.redact({ commit: "v1", key: "k8" })).toEqual({
      ok: true,
      commit,
      redacted,
      change: "none",
    });
  });

  test("of which nothing was said leaves it as it is, and owes nothing", async () => {
    const branch = await freshBranch();
    const [plain = "", keyed] = [await put(branch, "a"), await said(branch, "b", { key: "k1" })];
    for (const commit of [plain ?? "", keyed]) {
      const entry = await entryOf(branch, commit);
      expect(await branch.history.redact({ commit, key: "k9" })).toMatchObject(NOTHING_SAID);
      expect(await entryOf(branch, commit)).toEqual(entry);
    }
    expect(await owesRewrite(branch)).toBe(false);
  });

  test("that is not there, or in no branch, is refused", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    for (const commit of ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "v1"]) {
      expect(await branch.history.redact({ commit, key: "k9" })).toEqual({
        ok: false,
        reason: "no-such-version",
      });
    }
    const never = branchOf(freshBucket());
    expect(await never.history.redact({ commit: "v1", key: "k9" })).toEqual({
      ok: false,
      reason: "no-such-branch",
    });
  });

  test("of a protected branch is for its writer alone", async () => {
    const branch = await freshBranch();
    const commit = await said(branch);
    await branch.settings.change({ writer: { key: "mine" } });
    expect(await branch.history.redact({ commit, key: "k9" })).toMatchObject({
      ok: false,
      reason: "protected",
    });
    expect((await entryOf(branch, commit)).annotation).toEqual(SAID);
    await redact(branch, commit, "mine");
  });

  test("goes for the open commit that it was, also if its annotation was another one there", async () => {
    for (const [ended, also] of [
      [undefined, {}],
      [{ key: "k1", message: "said at the end", meta: { a: "b" } }, {}],
    ] as const) {
      const branch = await freshBranch();
      const opened = await branch.openCommits.start({ ttlMs: DAY_MS, annotation: SAID });
      if (!opened.ok) throw new Error(opened.reason);
      const { openCommit } = opened;
      await branch.files.put({ openCommit, path: "a", content: inline("a"), attributes: also });
      const finish = { openCommit, ...(ended && { annotation: ended }) };
      const end = await branch.openCommits.finish(finish);
      if (!end.ok || end.state !== "finished") throw new Error(JSON.stringify(end));
      expect(await tablesWithSecret(branch)).toContain("open_commits");
      await redact(branch, end.commit ?? "");
      expect(await tablesWithSecret(branch)).toEqual([]);
      // Who asks again for its end has the same answer, and brings nothing back.
      expect(await branch.openCommits.finish({ ...finish, annotation: SAID })).toEqual(end);
      expect(await tablesWithSecret(branch)).toEqual([]);
    }
  });

  test("goes for the upload in parts that it was", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { annotation: SAID });
    const one = chunked("one", ["b/1"]);
    await branch.multipart.addPart({ upload, number: 1, content: one });
    expect(await tablesWithSecret(branch)).toEqual(["multiparts"]);
    const done = await branch.multipart.complete(completion(upload, { 1: one }));
    if (!done.ok) throw new Error(done.reason);
    await redact(branch, done.commit ?? "");
    expect(await tablesWithSecret(branch)).toEqual([]);
  });

  test("goes for the fork that it began with", async () => {
    const bucket = freshBucket();
    const parent = await freshBranch(bucket);
    await said(parent);
    const fork = branchOf(freshBucket());
    expect(await fork.lifecycle.fork({ parent: bucket, annotation: SAID })).toMatchObject({ ok: true });
    await ready(fork);
    const log = await fork.history.list({ limit: 10 });
    const [first] = log.ok ? log.commits : [];
    expect(first?.annotation?.message).toBe(SAID.message);
    await redact(fork, first?.id ?? "");
    expect(await tablesWithSecret(fork)).toEqual([]);
    // What was said of the parent's commit is the parent's.
    expect(await tablesWithSecret(parent)).toEqual(["commits"]);
  });

  test("waits for a large commit, of which the annotation is then nowhere either", async () => {
    const branch = await freshBranch();
    const first = await said(branch);
    const opened = await branch.openCommits.start({ ttlMs: DAY_MS, annotation: SAID });
    if (!opened.ok) throw new Error(opened.reason);
    const { openCommit } = opened;
    const operations = Array.from({ length: 10_001 }, (_, n) => ({ delete: `${n}` }));
    for (const page of pagesOf(operations))
      committed(await branch.files.commit({ openCommit, operations: page }));
    await branch.files.put({ openCommit, path: "b", content: inline("b"), attributes: {} });
    const crash = crashAt({ statement: /INSERT INTO files[^;]*FROM staged/, nth: 1 });
    const ending = branch.openCommits.finish({ openCommit });
    await crash.reached();
    const redacting = redact(branch, first);
    crash.resume();
    await ending.catch(() => {});
    await runDurableObjectAlarm(branch);
    await redacting;
    const log = await branch.history.list({ limit: 1 });
    await redact(branch, (log.ok && log.commits[0]?.id) || "");
    expect(await tablesWithSecret(branch)).toEqual([]);
  });

  test("ends exports; one that begins then tells that it was redacted", async () => {
    const branch = await freshBranch();
    const commit = await said(branch);
    const before = await branch.exports.begin();
    if (!before.ok) throw new Error(before.reason);
    const redacted = await redact(branch, commit);
    expect(await branch.exports.commits({ export: before.export, after: 0 })).toEqual({
      ok: false,
      reason: "no-such-export",
    });
    const begun = await branch.exports.begin();
    if (!begun.ok) throw new Error(begun.reason);
    const page = await branch.exports.commits({ export: begun.export, after: 0 });
    if (!page.ok) throw new Error("no page");
    expect(JSON.parse(String(page.commits[0]?.[7]))).toEqual({ redacted });
    expect(JSON.stringify(page)).not.toContain(SECRET);
  });
});
