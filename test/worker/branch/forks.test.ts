import { env, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { sampled } from "../../support/suite.ts";
import { atRest, entriesOf, forkOf, ready, rowsOf, treeOf } from "./fork-support.ts";
import { crashAt, expectRefsRight, goOn, numbered, putText, restarted, seed } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  chunked,
  commitFiles,
  committed,
  completion,
  freshBranch,
  freshBucket,
  inline,
  isCatalogued,
  ledgerOf,
  listed,
  put,
  withoutCatalogue,
} from "./support.ts";

/** The first statement that each slice of a fork writes its files with. */
const SLICE = /INSERT INTO files \(gen, path, born, died, kind, digest, size, attributes\)\s+SELECT/;
const FORKING = { ok: false, reason: "forking" };

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** Writes a file whose bytes are said to be in these blobs. */
async function putChunked(branch: BranchStub, path: string, blobs: readonly string[]): Promise<string> {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  const { upload } = opened;
  const content = chunked(`${blobs} of ${path}`, blobs);
  const commit = committed(await branch.files.put({ path, content, attributes: {}, upload }));
  if (commit === null) throw new Error("nothing changed");
  return commit;
}

/** A branch with every kind of file, and what it was at a commit that is long past. */
async function parentOf(bucket: string): Promise<{ parent: BranchStub; commit: string; tree: unknown[] }> {
  const parent = await freshBranch(bucket);
  await put(parent, "gone before");
  const attributes = { contentType: "text/x", cacheControl: "no-store", metadata: { b: "2", a: "1" } };
  await parent.files.put({ path: "d/with attributes", content: inline("d"), attributes });
  await parent.files.put({ path: "d/same bytes", content: inline("d"), attributes: {} });
  await parent.files.put({ path: "d/nothing", content: inline(""), attributes: {} });
  await putChunked(parent, "large", ["b/1", "b/2"]);
  const upload = await begin(parent, { path: "in parts", attributes: { contentType: "video/x" } });
  const parts = { 1: chunked("one", ["b/p1"]), 2: chunked("two", ["b/p2"]) };
  for (const [number, content] of Object.entries(parts)) {
    await parent.multipart.addPart({ upload, number: Number(number), content });
  }
  const asked = completion(upload, parts, "b/m1");
  await parent.multipart.complete({ ...asked, attributes: { parts: { sizes: [[3, 2]] } } });
  await parent.files.commit({ operations: [{ delete: "gone before" }] });
  await commitFiles(parent, { puts: { "é/ü": "u" } });
  const made = await parent.files.commit({ operations: [{ put: "empty/", digest: "", size: 0 }] });
  const commit = committed(made) ?? "";
  const tree = await treeOf(parent, commit);
  await put(parent, "d/with attributes", "written later");
  await put(parent, "written later");
  await parent.files.commit({ operations: [{ delete: "large" }, { delete: "empty/" }] });
  return { parent, commit, tree };
}

describe("a fork", () => {
  test("has what the commit has that it was made from, to the byte of every attribute, in one commit of its own", async () => {
    const from = freshBucket();
    const { parent, commit, tree } = await parentOf(from);
    const { branch } = await forkOf(from, { commit });
    expect(await treeOf(branch)).toEqual(tree);
    expect(await listed(branch, { delimiter: "/" })).toEqual(
      await listed(parent, { delimiter: "/", commit }),
    );
    const log = await branch.history.list({ limit: 10 });
    expect(log).toMatchObject({
      commits: [{ parent: null, origin: null, changes: { written: 7, ended: 0 } }],
    });
    expect(log).not.toMatchObject({ commits: [{ id: commit }] });
    expect(log).toMatchObject({ commits: [{ annotation: { message: `made from ${from} at ${commit}` } }] });
    await expectRefsRight(branch);
  });

  test("of no named commit is made from the newest one", async () => {
    const from = freshBucket();
    const { parent } = await parentOf(from);
    const { branch } = await forkOf(from);
    expect(await treeOf(branch)).toEqual(await treeOf(parent));
  });

  test("of a branch without commits is empty", async () => {
    const from = freshBucket();
    await freshBranch(from);
    const { branch } = await forkOf(from);
    expect(await listed(branch)).toEqual([]);
    await put(branch, "a");
    expect(await listed(branch)).toEqual(["a"]);
  });

  test("and its parent go their own ways", async () => {
    const from = freshBucket();
    const { parent, commit, tree } = await parentOf(from);
    const before = await treeOf(parent);
    const { branch } = await forkOf(from, { commit });
    const [first] = await headsOf(branch);
    await put(branch, "large", "another");
    committed(
      await branch.files.commit({ operations: [{ delete: "d/nothing" }, { put: "copy", ...inline("u") }] }),
    );
    expect(await treeOf(parent)).toEqual(before);
    await put(parent, "d/nothing", "something");
    expect(await listed(branch)).toEqual([
      "copy",
      "d/same bytes",
      "d/with attributes",
      "empty/",
      "in parts",
      "large",
      "é/ü",
    ]);
    expect(await treeOf(branch, first)).toEqual(tree);
  });

  test("is asked for twice and made once; from anything else it is not made again", async () => {
    const [from, other, bucket] = [freshBucket(), freshBucket(), freshBucket()];
    const { parent, commit } = await parentOf(from);
    await freshBranch(other);
    const { branch } = await forkOf(from, { commit, bucket });
    await put(branch, "a");
    await put(parent, "b");
    const again = { ok: true, parent: from, commit, ready: true };
    expect(await branch.lifecycle.fork({ parent: from, commit })).toMatchObject(again);
    expect(await branch.lifecycle.fork({ parent: from })).toMatchObject(again);
    for (const asked of [{ parent: other }, { parent: from, commit: "01ARZ3NDEKTSV4RRFFQ69G5FAV" }]) {
      expect(await branch.lifecycle.fork(asked)).toEqual({ ok: false, reason: "already-exists" });
    }
    expect(await branch.lifecycle.create()).toEqual({ ok: false, reason: "already-exists" });
    expect(await branchOf(other).lifecycle.fork({ parent: from })).toEqual({
      ok: false,
      reason: "already-exists",
    });
    expect((await headsOf(branch)).length).toBe(2);
  });

  test("of what is not there is not made, and leaves nothing", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const parent = await freshBranch(from);
    await put(parent, "a");
    const branch = branchOf(bucket);
    const asked = { parent: from, commit: "01ARZ3NDEKTSV4RRFFQ69G5FAV" };
    expect(await branch.lifecycle.fork(asked)).toEqual({ ok: false, reason: "no-such-version" });
    expect(await branch.lifecycle.fork({ parent: freshBucket() })).toEqual({
      ok: false,
      reason: "no-such-parent",
    });
    await atRest(branch);
    expect(await rowsOf(branch)).toMatchObject({ forks: 0, files: 0 });
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
    expect(await isCatalogued(bucket)).toBe(false);
    expect(await branch.lifecycle.create()).toMatchObject({ ok: true });
  });

  test("tells pipelines that follow it of one commit, once it can be read", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const { parent } = await parentOf(from);
    const branch = branchOf(bucket);
    const crash = crashAt({ statement: SLICE, nth: 1 });
    expect(await branch.lifecycle.fork({ parent: from })).toMatchObject({ ok: true, ready: false });
    const { cursor, exists } = await branch.feed.subscribe({ uid: "u", pipeline: "p" });
    expect(exists).toBe(true);
    await crash.reached();
    expect((await branch.feed.read({ cursor, limit: 100 })).events).toEqual([]);
    crash.resume();
    await goOn(branch);
    await ready(branch);
    const { events } = await branch.feed.read({ cursor, limit: 100 });
    expect(events).toMatchObject([{ kind: "commit", seq: 1 }]);
    expect(events[0]?.changes.map(({ path }) => path)).toEqual(await listed(parent));
    await branch.feed.unsubscribe({ uid: "u" });
  });
});

describe("while its rows are on their way a fork", () => {
  test("is forking to everybody who reads or writes, is in the catalogue, and says how far it is", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const { commit, tree } = await parentOf(from);
    const branch = branchOf(bucket);
    const crash = crashAt({ statement: SLICE, nth: 1 });
    expect(await branch.lifecycle.fork({ parent: from, commit })).toMatchObject({
      ok: true,
      ready: false,
      total: 7,
    });
    expect(await isCatalogued(bucket)).toBe(true);
    await crash.reached();
    expect(await branch.lifecycle.inspect()).toMatchObject({
      ok: true,
      head: null,
      fork: { ready: false, copied: 0 },
    });
    const calls = [
      () => branch.lifecycle.status(),
      () => branch.files.read({ path: "large" }),
      () => branch.files.list({ prefix: "", limit: 1 }),
      () => branch.files.versions({ prefix: "", limit: 1 }),
      () => branch.history.list({ limit: 1 }),
      () => branch.history.commit({ commit }),
      () => branch.history.diff({ from: null, to: commit, after: "", limit: 1 }),
      () => branch.uploads.open({}),
      () => branch.multipart.create({ path: "a", attributes: {}, ttlMs: 1000 }),
      () => branch.multipart.list({ prefix: "", limit: 1 }),
      () => branch.files.put({ path: "a", content: inline("a"), attributes: {} }),
      () => branch.files.commit({ operations: [{ delete: "large" }] }),
      () => branch.openCommits.start({ ttlMs: 1000 }),
      () => branch.openCommits.revert({ commit }),
      () => branch.lifecycle.destroy({ withFiles: false }),
    ];
    for (const call of calls) expect(await call(), String(call)).toEqual(FORKING);
    expect(await branch.lifecycle.create()).toEqual({ ok: false, reason: "already-exists" });
    expect(await branch.output.claim({ uid: "u", pipeline: "p" })).toEqual({
      ok: false,
      reason: "already-exists",
    });
    expect(await branchOf(freshBucket()).lifecycle.fork({ parent: bucket })).toEqual({
      ok: false,
      reason: "parent-forking",
    });
    crash.resume();
    await goOn(branch);
    await ready(branch);
    expect(await treeOf(branch)).toEqual(tree);
  });

  test("is listed as on its way, and later as any other", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    await parentOf(from);
    const branch = branchOf(bucket);
    const rowOf = async () => {
      const rows = await openCatalogue(env.DB).branches.list({ limit: 1000 });
      return rows.find((row) => `${row.branch}.${row.repo}` === bucket);
    };
    const crash = crashAt({ statement: SLICE, nth: 1 });
    await branch.lifecycle.fork({ parent: from });
    expect(await rowOf()).toMatchObject({ forking: true });
    crash.resume();
    await goOn(branch);
    await ready(branch);
    await expect.poll(rowOf).not.toHaveProperty("forking");
    expect(await rowOf()).toBeDefined();
  });

  test("can be deleted, and nothing of it is left; the name is free at once", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const parent = await large(from);
    const branch = branchOf(bucket);
    const crash = crashAt({ statement: SLICE, nth: 2 });
    await branch.lifecycle.fork({ parent: from });
    await crash.reached();
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
    expect(await branch.lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await isCatalogued(bucket)).toBe(false);
    crash.resume();
    expect(await branch.lifecycle.create()).toMatchObject({ ok: true });
    expect(await isCatalogued(bucket)).toBe(true);
    await put(branch, "anew");
    await atRest(branch, parent);
    expect(await listed(branch)).toEqual(["anew"]);
    expect(await rowsOf(branch)).toMatchObject({ files: 1, contents: 1, forks: 0 });
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
    expect(await ledgerOf(branch)).toMatchObject({ condemned: [] });
  });

  test("goes on although its parent is deleted", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const { parent, commit, tree } = await parentOf(from);
    const branch = branchOf(bucket);
    const crash = crashAt({ statement: SLICE, nth: 1 });
    await branch.lifecycle.fork({ parent: from, commit });
    await crash.reached();
    expect(await parent.lifecycle.destroy()).toEqual({ ok: true });
    await freshBranch(from);
    crash.resume();
    await goOn(branch);
    await ready(branch);
    expect(await treeOf(branch)).toEqual(tree);
  });

  test("waits for a catalogue that is away, and whoever asks again finishes what was begun", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    await parentOf(from);
    const branch = branchOf(bucket);
    const answer = await withoutCatalogue(async () => await branch.lifecycle.fork({ parent: from }));
    expect(answer).toEqual({ ok: false, reason: "catalogue-unavailable" });
    expect(await branch.lifecycle.fork({ parent: from })).toMatchObject({ ok: true });
    expect(await isCatalogued(bucket)).toBe(true);
  });
});

describe("bytes that a fork shares with its parent", () => {
  test("stay whatever becomes of the fork: it condemns its own alone", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const { parent, commit } = await parentOf(from);
    const { branch } = await forkOf(from, { commit, bucket });
    expect(await rowsOf(branch)).toMatchObject({ onLoan: 2 });
    expect(await rowsOf(parent)).toMatchObject({ roots: 1 });
    await putChunked(branch, "own", ["b/own"]);
    // The same bytes come again, in other blobs.
    const again = chunked("b/1,b/2 of large", ["b/again"]);
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    await branch.uploads.add({ upload: opened.upload, contents: [again] });
    await branch.uploads.abort(opened);
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/again"], blobs: [["b/own", 1]] });
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
    await goneFrom(branch);
    expect((await ledgerOf(branch)).condemned).toEqual(["b/again", "b/own"]);
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
    expect(await ledgerOf(parent)).toMatchObject({ condemned: [] });
    await atRest(branch, parent);
  });

  test("stay while an upload of the deleted fork holds them, and so does the root", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const { parent, commit } = await parentOf(from);
    const { branch } = await forkOf(from, { commit, bucket });
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { digest, size } = chunked("b/1,b/2 of large", []);
    expect(await branch.uploads.reserve({ upload: opened.upload, contents: [{ digest, size }] })).toEqual({
      ok: true,
      missing: [],
    });
    await branch.lifecycle.destroy();
    await expect.poll(async () => (await rowsOf(branch)).files).toBe(0);
    expect(await rowsOf(branch)).toMatchObject({ onLoan: 1, forks: 1 });
    expect(await rowsOf(parent)).toMatchObject({ roots: 1 });
    await branch.uploads.abort(opened);
    await atRest(branch, parent);
    expect(await rowsOf(branch)).toMatchObject({ onLoan: 0, forks: 0 });
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
  });

  test("stay while a pipeline follows the deleted fork, whose jobs may still read there", async () => {
    const [from, bucket] = [freshBucket(), freshBucket()];
    const { parent, commit, tree } = await parentOf(from);
    const { branch } = await forkOf(from, { commit, bucket });
    const [head = ""] = await headsOf(branch);
    await branch.feed.subscribe({ uid: "u", pipeline: "p" });
    await branch.lifecycle.destroy();
    await goOn(branch);
    const page = await branch.files.list({ prefix: "", limit: 100, commit: head, anyGeneration: true });
    expect(page.ok && page.entries.length).toBe(tree.length);
    expect(await rowsOf(parent)).toMatchObject({ roots: 1 });
    await branch.feed.unsubscribe({ uid: "u" });
    await goneFrom(branch);
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
  });

  test("stay when the middle one of three is deleted: it keeps its rows and its root until the last is gone", async () => {
    const [first, second, third] = [freshBucket(), freshBucket(), freshBucket()];
    const { parent, commit } = await parentOf(first);
    const { branch: middle } = await forkOf(first, { commit, bucket: second });
    await putChunked(middle, "of the middle", ["b/middle"]);
    const { branch: last } = await forkOf(second, { bucket: third });
    const tree = await treeOf(last);
    expect(tree).toEqual(await treeOf(middle));
    await middle.lifecycle.destroy();
    await atRest(middle, parent, last);
    expect(await rowsOf(parent)).toMatchObject({ roots: 1 });
    expect(await rowsOf(middle)).toMatchObject({ roots: 1, forks: 1, onLoan: 2 });
    expect(await ledgerOf(middle)).toMatchObject({ condemned: [] });
    expect(await treeOf(last)).toEqual(tree);
    await last.lifecycle.destroy();
    await atRest(last, middle, parent);
    expect(await rowsOf(last)).toMatchObject({ files: 0, contents: 0, forks: 0 });
    expect(await rowsOf(middle)).toMatchObject({ files: 0, contents: 0, forks: 0, roots: 0 });
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
  });

  test("are in a root that no late call brings back once it was dropped", async () => {
    const from = freshBucket();
    const { parent } = await parentOf(from);
    const root = { fork: "01ARZ3NDEKTSV4RRFFQ69G5FAV", bucket: "x.y" };
    const added = await parent.forks.addRoot(root);
    await put(parent, "later");
    expect(await parent.forks.addRoot(root)).toEqual(added);
    expect(await rowsOf(parent)).toMatchObject({ roots: 1 });
    for (let time = 0; time < 2; time++) await parent.forks.dropRoot(root);
    expect(await parent.forks.addRoot(root)).toEqual({ ok: false, reason: "let-go" });
    expect(await parent.forks.rootPage({ fork: root.fork, after: "" })).toEqual({
      ok: false,
      reason: "no-such-root",
    });
    await parent.forks.dropRoot({ fork: "never added" });
    expect(await parent.forks.addRoot({ ...root, fork: "never added" })).toEqual({
      ok: false,
      reason: "let-go",
    });
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
  });

  test("are in no root of a fork that was refused, also if the call for it comes twice, and once more when there is a parent", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    await parent.lifecycle.destroy();
    const bucket = freshBucket();
    const fork = branchOf(bucket);
    expect(await fork.lifecycle.fork({ parent: from })).toEqual({ ok: false, reason: "no-such-parent" });
    await atRest(fork);
    expect(await rowsOf(fork)).toMatchObject({ forks: 0 });
    const [uid] = await runInDurableObject(parent, (_, { storage: { sql } }) =>
      sql
        .exec("SELECT fork FROM roots WHERE goneAt IS NOT NULL")
        .toArray()
        .map((row) => String(row.fork)),
    );
    await parent.lifecycle.create();
    expect(await parent.forks.addRoot({ fork: uid ?? "none", bucket })).toEqual({
      ok: false,
      reason: "let-go",
    });
    expect(await rowsOf(parent)).toMatchObject({ roots: 0 });
  });
});

/** A parent whose rows take several slices. */
async function large(bucket: string): Promise<BranchStub> {
  const parent = await freshBranch(bucket);
  await seed(parent);
  const paths = numbered("many/", 1200);
  committed(await parent.files.commit({ operations: paths.map((path, n) => putText(path, n)) }));
  await putChunked(parent, "large", ["b/1", "b/2"]);
  return parent;
}

async function headsOf(branch: BranchStub): Promise<string[]> {
  const log = await branch.history.list({ limit: 100 });
  if (!log.ok) throw new Error(log.reason);
  return log.commits.map(({ id }) => id);
}

/** Waits until a deleted fork has let go of its parent. */
async function goneFrom(branch: BranchStub): Promise<void> {
  await expect.poll(async () => (await rowsOf(branch)).forks).toBe(0);
  expect(await rowsOf(branch)).toMatchObject({ files: 0, contents: 0, onLoan: 0 });
}

/** A point to crash at, in words, and the statement there. */
type Crash = readonly [when: string, statement: RegExp, nth: number];

describe("a crash while a fork is made", () => {
  const CRASHES: readonly Crash[] = [
    ["before the second slice", SLICE, 2],
    ["before the fork is written down at all", /INSERT INTO forks/, 1],
    ["before the parent has written down the root", /INSERT INTO roots/, 1],
    ["before the fork has written down that the parent did", /INSERT INTO generations/, 1],
    ["before the catalogue is to be told", /INSERT INTO outbox/, 1],
    ["before the first slice", SLICE, 1],
    ["in the last slice", /UPDATE forks SET copied/, 3],
    ["before the commit", /INSERT INTO commits/, 1],
    ["in the publication", /UPDATE generations SET deletedAt = NULL/, 1],
  ];
  for (const [[when, statement, nth], options] of sampled(CRASHES, { every: 9 })) {
    test(`${when} loses nothing: whoever asks again has it once`, options, async () => {
      const [from, bucket] = [freshBucket(), freshBucket()];
      const parent = await large(from);
      const branch = branchOf(bucket);
      const crash = crashAt({ statement, nth });
      await branch.lifecycle.fork({ parent: from }).catch(() => {});
      await crash.reached();
      await restarted(branch);
      await restarted(parent);
      crash.resume();
      expect(await branch.lifecycle.fork({ parent: from })).toMatchObject({ ok: true });
      await goOn(branch);
      await ready(branch);
      expect(await entriesOf(branch)).toEqual(await entriesOf(parent));
      expect((await headsOf(branch)).length).toBe(1);
      await expectRefsRight(branch);
      expect(await rowsOf(branch)).toMatchObject({ forks: 1 });
      expect(await rowsOf(parent)).toMatchObject({ roots: 1 });
      expect(await isCatalogued(bucket)).toBe(true);
    });
  }

  const written = CRASHES.filter(([when]) => !when.includes("at all"));
  for (const [[when, statement, nth], options] of sampled(written, { every: 9 })) {
    test(`${when} is got over by the alarm alone`, options, async () => {
      const [from, bucket] = [freshBucket(), freshBucket()];
      const parent = await large(from);
      const branch = branchOf(bucket);
      const crash = crashAt({ statement, nth });
      await branch.lifecycle.fork({ parent: from }).catch(() => {});
      await crash.reached();
      await restarted(branch);
      crash.resume();
      await atRest(branch, parent);
      await ready(branch);
      expect(await entriesOf(branch)).toEqual(await entriesOf(parent));
      expect(await isCatalogued(bucket)).toBe(true);
    });
  }
});

describe("a crash while a fork goes", () => {
  const CRASHES: readonly Crash[] = [
    ["before more rows go", /DELETE FROM files/, 3],
    ["in the deletion", /UPDATE generations SET deletedAt = \?/, 1],
    ["before the first rows go", /DELETE FROM files/, 1],
    ["before what was on loan goes", /DELETE FROM contents INDEXED BY contents_unkept WHERE gen = /, 1],
    ["before the parent lets go", /INSERT INTO roots .* ON CONFLICT/s, 1],
    ["before the fork knows that the parent did", /DELETE FROM forks/, 1],
  ];
  for (const [[when, statement, nth], options] of sampled(CRASHES, { every: 9 })) {
    test(`${when} leaves nothing of it, and takes nothing of its parent`, options, async () => {
      const [from, bucket] = [freshBucket(), freshBucket()];
      const parent = await large(from);
      const { branch } = await forkOf(from, { bucket });
      await putChunked(branch, "own", ["b/own"]);
      const crash = crashAt({ statement, nth });
      await branch.lifecycle.destroy().catch(() => {});
      await crash.reached();
      await restarted(branch);
      await restarted(parent);
      // While any of its rows may name bytes of the parent, the parent knows of it.
      if ((await rowsOf(branch)).files > 0) expect(await rowsOf(parent)).toMatchObject({ roots: 1 });
      crash.resume();
      await branch.lifecycle.destroy();
      await atRest(branch, parent);
      const nothing = { files: 0, revived: 0, contents: 0, onLoan: 0, forks: 0, roots: 0 };
      expect(await rowsOf(branch)).toEqual(nothing);
      expect(await rowsOf(parent)).toMatchObject({ roots: 0, files: 1221 });
      expect(await ledgerOf(parent)).toMatchObject({ condemned: [] });
      expect(await isCatalogued(bucket)).toBe(false);
    });
  }
});
