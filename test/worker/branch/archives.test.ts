// @module-tag rest
import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ArchivedCommit, ArchivedFile, ArchivedTag, MoreOfFile } from "../../../protocol/archives.ts";
import { contentName, EMPTY_DIGEST } from "../../../protocol/content.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import type { AnswerOf } from "../../../worker/branch/contract/answers.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { ArchivedBytes, ExportCalls, ImportCalls } from "../../../worker/branch/contract/archives.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { atRest, entriesOf, forkOf, rowsOf as forkRowsOf } from "./fork-support.ts";
import { crashAt, expectRefsRight, restarted } from "./large-support.ts";
import { dayAfterTags, givenBack, rowsLeft } from "./retention-support.ts";
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
  put,
  randomNumbers,
} from "./support.ts";

/** A branch as an archive has it. */
interface Archive {
  readonly branch: Parameters<ImportCalls["begin"]>[0]["branch"];
  readonly commits: ArchivedCommit[];
  readonly tags: ArchivedTag[];
  readonly files: ArchivedFile[];
  readonly contents: ArchivedBytes[];
}

/** The contents of these tests that are not in rows, by their names: whoever imports brings them. */
const large = new Map<string, Content>();
let names = 0;
const EMPTY = { digest: EMPTY_DIGEST, size: 0 };

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** The stub's type makes lists of tuples. */
function api(branch: BranchStub): BranchApi {
  return branch as unknown as BranchApi;
}

/** Reads a branch, and does something else after its first page of files. */
async function exported(stub: BranchStub, meanwhile?: () => Promise<unknown>): Promise<Archive> {
  const branch = api(stub);
  const begun = await branch.exports.begin();
  if (!begun.ok) throw new Error(begun.reason);
  const { export: id } = begun;
  const all: Archive = { branch: begun.branch, commits: [], tags: [], files: [], contents: [] };
  await meanwhile?.();
  for (let after: number | null = 0; after !== null; ) {
    const page: AnswerOf<ExportCalls["commits"]> = await branch.exports.commits({ export: id, after });
    if (!page.ok) throw new Error(page.reason);
    all.commits.push(...page.commits);
    after = page.next;
  }
  const tags = await branch.exports.tags({ export: id, after: "" });
  if (!tags.ok) throw new Error(tags.reason);
  all.tags.push(...tags.tags);
  for (let after: { path: string; born: number } | null = { path: "", born: 0 }; after !== null; ) {
    const page: AnswerOf<ExportCalls["files"]> = await branch.exports.files({ export: id, after });
    if (!page.ok) throw new Error(page.reason);
    all.files.push(...page.files);
    all.contents.push(...page.contents);
    after = page.next;
  }
  await branch.exports.end({ export: id });
  expect(await branch.exports.tags({ export: id, after: "" })).toEqual({
    ok: false,
    reason: "no-such-export",
  });
  return all;
}

/** What an import of it is called. */
function archiveId(): string {
  names++;
  return String(names).padStart(64, "0");
}

type Begun = Extract<AnswerOf<ImportCalls["begin"]>, { ok: true }>;

async function begun(branch: BranchStub, { branch: head }: Archive, archive = archiveId()): Promise<Begun> {
  const answer = await branch.imports.begin({ archive, branch: head });
  if (!answer.ok) throw new Error(`beginImport answered ${JSON.stringify(answer)}`);
  return answer;
}

/** Sends what is still to come, a few rows a page. */
async function sent(
  stub: BranchStub,
  all: Archive,
  { import: id, upload, progress }: Begun,
  rows = 3,
): Promise<void> {
  const branch = api(stub);
  const done = async (answer: Promise<AnswerOf<ImportCalls["files"]>>) => {
    const page = await answer;
    if (!page.ok) throw new Error(JSON.stringify(page));
    return page.progress;
  };
  let at = progress;
  const commits = all.commits.filter(([seq]) => seq > progress.commits);
  for (const page of pagesOf(commits, rows)) {
    at = await done(branch.imports.commits({ import: id, after: at.commits, commits: page }));
  }
  const tags = all.tags.filter(([name]) => name > progress.tags);
  for (const page of pagesOf(tags, rows)) {
    at = await done(branch.imports.tags({ import: id, after: at.tags, tags: page }));
  }
  const { path, born } = progress.files;
  const from = all.files.findIndex((file) => file[0] === path && file[1] === born) + 1;
  for (const page of pagesOf(all.files.slice(from), rows)) {
    const wanted = new Set(page.map(([, , , digest, size]) => contentName({ digest, size })));
    const brought = [...wanted].flatMap((name) => large.get(name) ?? []);
    if (brought.length > 0) await branch.uploads.add({ upload, contents: brought.map(renamed) });
    const contents = all.contents.filter((content) => wanted.has(contentName(content)));
    const files = page.map(([path, born, died, digest, size, attributes, more]) => ({
      ...{ path, born, died, digest, size, more },
      attributes: attributes === null ? {} : JSON.parse(attributes),
    }));
    at = await done(branch.imports.files({ import: id, after: at.files, files, contents }));
  }
}

/** The same bytes in another blob: no two uploads share names. */
function renamed(content: Content): Content {
  names++;
  if (content.body.kind !== "chunks") throw new Error("it is in a row");
  const { keeps: _, ...own } = content;
  const chunks = content.body.chunks.map((chunk, index) => ({
    ...chunk,
    blob: `b/imported-${names}-${index}`,
  }));
  return { ...own, body: { kind: "chunks", chunks } };
}

function countsOf({ commits, tags, files }: Archive) {
  return { commits: commits.length, tags: tags.length, files: files.length };
}

async function imported(all: Archive, bucket = freshBucket()): Promise<BranchStub> {
  const branch = branchOf(bucket);
  const started = await begun(branch, all);
  await sent(branch, all, started);
  const finished = await branch.imports.finish({
    ...{ import: started.import, counts: countsOf(all), key: "SLUICEBY" },
  });
  if (!finished.ok) throw new Error(JSON.stringify(finished));
  return branch;
}

/** All of a row of files but its path. */
function tailOf([, ...tail]: ArchivedFile) {
  return tail;
}

function pagesOf<T>(items: readonly T[], size: number): T[][] {
  const pages: T[][] = [];
  for (let from = 0; from < items.length; from += size) pages.push(items.slice(from, from + size));
  return pages;
}

/**
 * A branch with every kind of row: replaced, deleted, in blobs, in parts, empty, a directory, and what erasures leave; with
 * commits of jobs, tags, annotations and settings.
 */
async function everyKind(bucket: string): Promise<BranchStub> {
  const branch = branchOf(bucket);
  await workedOut(branch);
  const attributes = { contentType: "text/x", metadata: { b: "2", a: "1" } };
  await branch.files.put({
    path: "d/one",
    content: inline("1"),
    attributes,
    annotation: { key: "SLUICE1", message: "first" },
  });
  await branch.tags.create({ name: "v1", force: false });
  await put(branch, "d/one", "replaced");
  await branch.files.put({
    path: "d/same",
    content: inline("1"),
    attributes: {},
    annotation: { key: "SLUICE2", meta: { n: "1" } },
  });
  await put(branch, "gone", "gone");
  await branch.files.commit({ operations: [{ delete: "gone" }] });
  await put(branch, "gone", "here again");
  const blob = chunked(`large of ${bucket}`, [`b/${bucket}`]);
  large.set(contentName(blob), blob);
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  committed(await branch.files.put({ path: "large", content: blob, attributes: {}, upload: opened.upload }));
  const upload = await begin(branch, { path: "in parts", attributes: { contentType: "video/x" } });
  const parts = {
    1: chunked(`one of ${bucket}`, [`b/${bucket}-p1`]),
    2: chunked(`two of ${bucket}`, [`b/${bucket}-p2`]),
  };
  for (const [number, content] of Object.entries(parts))
    await branch.multipart.addPart({ upload, number: Number(number), content });
  const asked = completion(upload, parts);
  // Both are of one length.
  await branch.multipart.complete({ ...asked, attributes: { parts: { sizes: [[parts[1].size, 2]] } } });
  large.set(contentName(asked.content), asked.content);
  committed(await branch.files.commit({ operations: [{ put: "empty/", digest: "", size: 0 }] }));
  await erasedKinds(branch);
  await branch.tags.create({ name: "latest", force: false });
  committed(await commitFiles(branch, { puts: { "é/ü": "u", "d/one": "once more" }, deletes: ["empty/"] }));
  const cors = [{ origins: ["*"], methods: ["GET"], headers: [], exposed: [] }];
  await branch.settings.change({ public: true, cors, writer: { key: "SLUICE1" } });
  return branch;
}

/** Makes a branch with commits of jobs, which descend from pipelines. Its pipeline is gone then. */
async function workedOut(branch: BranchStub): Promise<void> {
  const claim = await branch.output.claim({ uid: "P1", pipeline: "edges" });
  if (!claim.ok) throw new Error(claim.reason);
  const lineages = [{ P0: 1 }, { P0: 1 }, { P0: 2, P9: 1 }];
  for (const [n, lineage] of lineages.entries()) {
    const { digest, size } = inline(`out ${n}`);
    const operations = [{ put: "out", digest, size }];
    const contents = [inline(`out ${n}`)];
    committed(
      await branch.output.commit({
        ...{ uid: "P1", epoch: claim.epoch, origin: `J${n}`, operations, lineage, contents },
      }),
    );
  }
  await branch.output.release({ uid: "P1", destroy: false });
}

/** What erasures leave of a path: a version that came back, a deletion without what it deleted, a gap. */
async function erasedKinds(branch: BranchStub): Promise<void> {
  const again = await put(branch, "erased/back", "stays");
  await erase(branch, "erased/back", await put(branch, "erased/back", "secret of back"));
  const gone = await put(branch, "erased/deletion", "secret of deletion");
  await branch.files.commit({ operations: [{ delete: "erased/deletion" }] });
  await erase(branch, "erased/deletion", gone);
  await put(branch, "erased/gap", "before");
  const between = await put(branch, "erased/gap", "secret of gap");
  await put(branch, "erased/gap", "after");
  await erase(branch, "erased/gap", between);
  await put(branch, "erased/undeleted", "undeleted");
  const deletion = committed(await branch.files.commit({ operations: [{ delete: "erased/undeleted" }] }));
  await erase(branch, "erased/undeleted", deletion);
  expect(await branch.files.read({ path: "erased/back" })).toMatchObject({ commit: again });
}

async function erase(branch: BranchStub, path: string, version: string | null): Promise<void> {
  const answer = await branch.erasures.erase({ versions: [{ path, version: version ?? "" }] });
  if (!answer.ok || answer.erased.length !== 1) throw new Error(JSON.stringify(answer));
}

/** All versions of all paths, each with what a read of it by its id says. */
async function versionsOf(branch: BranchStub): Promise<unknown[]> {
  const page = await branch.files.versions({ prefix: "", limit: 1000 });
  if (!page.ok) throw new Error(page.reason);
  return await Promise.all(
    page.entries.map(async (entry) => {
      if (entry.kind === "prefix") throw new Error(`${entry.path} is no version`);
      const read = await branch.files.read({ path: entry.path, commit: entry.version });
      const bytes = read.ok && read.body.kind === "inline" ? [...read.body.bytes] : null;
      return [entry, read.ok ? [read.digest, read.commit, read.modifiedAt, bytes] : read.reason];
    }),
  );
}

/** The commits of a branch, but that they came out of an archive. */
async function logOf(branch: BranchStub) {
  const log = await branch.history.list({ limit: 1000 });
  if (!log.ok) throw new Error(log.reason);
  return { ...log, commits: log.commits.map(({ imported: _, ...entry }) => entry) };
}

/** All that anybody can read of a branch, but that its commits came out of an archive. */
async function allOf(branch: BranchStub, tags: readonly string[]): Promise<unknown> {
  const log = await logOf(branch);
  const trees: Record<string, unknown> = {};
  for (const { id } of log.commits) {
    trees[id] = [];
    for (const { path } of await entriesOf(branch, id)) {
      const read = await branch.files.read({ path, commit: id, modified: "file" });
      if (!read.ok) throw new Error(read.reason);
      const { body: _, life: __, ...file } = read;
      (trees[id] as unknown[]).push(file);
    }
  }
  const versions = await versionsOf(branch);
  const lineages = await runInDurableObject(branch, (_, { storage: { sql } }) => {
    const live = "(SELECT max(gen) FROM generations)";
    return [...sql.exec(`SELECT seq, lineage FROM lineages WHERE gen = ${live} ORDER BY seq`)];
  });
  const named = await Promise.all(tags.map((name) => branch.tags.find({ name })));
  const { ok: _, ...settings } = await branch.settings.read().then((answer) => ({ ...answer }));
  return { log, trees, versions, lineages, named, settings };
}

describe("a branch out of an archive", () => {
  test("is the branch that went into it: commits, times, annotations, versions, tags, attributes, settings", async () => {
    const branch = await everyKind(freshBucket());
    await branch.settings.change({ emptyOnly: true });
    const all = await exported(branch);
    expect(all.tags.map(([name]) => name)).toEqual(["latest", "v1"]);
    const bucket = freshBucket();
    const copy = await imported(all, bucket);
    expect(await allOf(copy, ["v1", "latest"])).toEqual(await allOf(branch, ["v1", "latest"]));
    await expectRefsRight(copy);
    expect(await isCatalogued(bucket)).toBe(true);
    const [, repo = ""] = bucket.split(".");
    const listed = await openCatalogue(env.DB).tags.list({ repo, limit: 10 });
    expect(listed.map(({ name }) => name)).toEqual(["latest", "v1"]);
    expect(await openCatalogue(env.DB).settings.findOpen({ repo, branch: "master" })).toMatchObject({
      isPublic: true,
    });
  });

  test("has the tags of objects, and bytes that are older than their tags", async () => {
    const branch = await freshBranch();
    await branch.settings.change({ modified: "file" });
    await put(branch, "a");
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE commits SET createdAt = createdAt - 1000000");
    });
    await restarted(branch);
    await branch.files.setTags({
      path: "a",
      tags: [
        ["b", "2"],
        ["a", "1"],
      ],
    });
    const tagged = { path: "b", content: inline("b"), attributes: { tags: [["__proto__", "x"]] as const } };
    committed(await branch.files.put(tagged));
    const copy = await imported(await exported(branch));
    for (const path of ["a", "b"]) {
      const { life: _, ...read } = { life: null, ...(await branch.files.read({ path })) };
      expect(await copy.files.read({ path })).toMatchObject(read);
      expect(read).toHaveProperty("attributes.tags");
    }
  });

  test("has none of the bytes that were erased, and what erasures left is erased in the copy as it is in the original", async () => {
    const branch = await everyKind(freshBucket());
    const all = await exported(branch);
    expect(
      all.files.filter(([path]) => path.startsWith("erased/")).map(([path, , , , , , more]) => [path, more]),
    ).toEqual([
      ["erased/back", { unmarked: true }],
      ["erased/back", { version: expect.any(Number) }],
      ["erased/deletion", { deletion: true }],
      ["erased/gap", { unmarked: true }],
      ["erased/gap", null],
      ["erased/undeleted", { unmarked: true }],
      ["erased/undeleted", { version: expect.any(Number) }],
    ]);
    const texts = all.contents.map(({ bytes }) => new TextDecoder().decode(bytes));
    expect(texts.filter((text) => text.includes("secret"))).toEqual([]);
    const copy = await imported(all);
    for (const each of [branch, copy]) await each.settings.change({ writer: null });
    const page = await branch.files.versions({ prefix: "", limit: 1000 });
    if (!page.ok) throw new Error(page.reason);
    const random = randomNumbers(7);
    const entries = page.entries
      .flatMap((entry) => (entry.kind === "prefix" ? [] : [{ ...entry, at: random() }]))
      .sort((one, other) => one.at - other.at);
    expect(entries).toHaveLength(20);
    for (const { path, version } of entries) {
      for (const each of [branch, copy]) await erase(each, path, version);
      expect(await versionsOf(copy), `${path} ${version}`).toEqual(await versionsOf(branch));
    }
    expect(await versionsOf(copy)).toEqual([]);
    await expectRefsRight(copy);
    expect(await rowsOf(copy)).toMatchObject({ files: 0, contents: 0 });
  });

  test("of a branch with a reader that has not heard of the erasures has none of what is left for that one alone", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "P1", pipeline: "edges" });
    const [one] = [await put(branch, "a", "1"), await put(branch, "b", "1")];
    await erase(branch, "a", one);
    expect((await rowsOf(branch)).files).toBeGreaterThan(1);
    const all = await exported(branch);
    expect(all.files.map(([path]) => path)).toEqual(["b"]);
    expect(await versionsOf(await imported(all))).toEqual(await versionsOf(branch));
  });

  test("goes on from there: the next commit is later, and is one more", async () => {
    const branch = await everyKind(freshBucket());
    const copy = await imported(await exported(branch));
    const before = await copy.history.list({ limit: 1000 });
    await copy.settings.change({ writer: null });
    const commit = await put(copy, "new", "new");
    const after = await copy.history.list({ limit: 1000 });
    if (!before.ok || !after.ok) throw new Error("no log");
    expect(after.commits.slice(1)).toEqual(before.commits);
    expect(after.commits[0]).toMatchObject({ id: commit, parent: before.commits[0]?.id });
    expect(after.commits[0]?.createdAt).toBeGreaterThanOrEqual(before.commits[0]?.createdAt ?? 0);
    await expectRefsRight(copy);
  });

  test("is there again under the name that it was deleted from, with the same ids", async () => {
    const bucket = freshBucket();
    const branch = await everyKind(bucket);
    const all = await exported(branch);
    const before = await allOf(branch, ["v1"]);
    expect(await branch.lifecycle.destroy({ key: "SLUICE1" })).toEqual({ ok: true });
    await imported(all, bucket);
    expect(await allOf(branch, ["v1"])).toEqual(before);
    const [, repo = ""] = bucket.split(".");
    const listed = await openCatalogue(env.DB).tags.list({ repo, limit: 10 });
    expect(listed.map(({ name }) => name)).toEqual(["latest", "v1"]);
    // What is deleted again goes by the same way as ever.
    expect(await branch.lifecycle.destroy({ key: "SLUICE1" })).toEqual({ ok: true });
    expect(await isCatalogued(bucket)).toBe(false);
    expect(await branch.lifecycle.create()).toMatchObject({ ok: true });
    expect(await branch.history.list({ limit: 10 })).toMatchObject({ ok: true, commits: [] });
  });

  test("of a branch that kept a part of its history keeps that part, and what is kept no more is as little there", async () => {
    const branch = await freshBranch();
    const commits: string[] = [];
    for (let n = 0; n < 12; n++) commits.push((await put(branch, n % 3 === 0 ? "often" : "a", `${n}`)) ?? "");
    await branch.tags.create({ name: "v2", commit: commits[1] ?? "", force: false });
    await branch.tags.create({ name: "v5", commit: commits[4] ?? "", force: false });
    await branch.settings.change({ keep: { commits: 3 } });
    await givenBack(branch);
    const all = await exported(branch);
    const copy = await imported(all);
    await givenBack(copy);
    const seen = async (which: BranchStub) => ({
      readable: await Promise.all(
        commits.map(async (commit) => {
          const read = await which.files.read({ path: "a", commit });
          return read.ok ? `${read.digest} ${read.modifiedAt}` : read.reason;
        }),
      ),
      versions: await which.files.versions({ prefix: "", limit: 1000 }),
      log: await logOf(which),
    });
    expect(await seen(copy)).toEqual(await seen(branch));
    expect(await seen(copy)).toMatchObject({ readable: { 0: "no-such-version", 2: "no-such-version" } });
    // Nothing that deletes is set, and a tag that goes gives back a day later what it alone held.
    const settings = await copy.settings.read();
    expect(settings).toMatchObject({ keep: null, lifecycle: null });
    const before = await rowsLeft(copy);
    await copy.tags.delete({ name: "v2" });
    await dayAfterTags(copy);
    await givenBack(copy);
    expect((await rowsLeft(copy)).files).toBeLessThan(before.files);
    expect(await copy.files.read({ path: "a", commit: commits[4] ?? "" })).toMatchObject({ ok: true });
    await expectRefsRight(copy);
  });

  test("of a fork has bytes of its own: nothing of it is the parent's any more", async () => {
    const bucket = freshBucket();
    await everyKind(bucket);
    const { branch: fork } = await forkOf(bucket);
    await put(fork, "own");
    const copy = await imported(await exported(fork));
    expect(await allOf(copy, [])).toEqual(await allOf(fork, []));
    expect((await forkRowsOf(fork)).onLoan).toBeGreaterThan(0);
    expect((await forkRowsOf(copy)).onLoan).toBe(0);
    await expectRefsRight(copy);
  });

  test("stays one through archives of it and forks, whose own commits are their own", async () => {
    const all = await exported(await everyKind(freshBucket()));
    expect(all.branch).toMatchObject({ imported: null });
    const bucket = freshBucket();
    const copy = await imported(all, bucket);
    await copy.settings.change({ writer: null });
    const own = await put(copy, "own");
    const marks = async (branch: BranchStub) => {
      const log = await branch.history.list({ limit: 1000 });
      return log.ok ? log.commits.filter(({ imported }) => !imported).map(({ id }) => id) : [];
    };
    expect(await marks(copy)).toEqual([own]);
    const { head } = all.branch;
    const again = await exported(copy);
    expect(again.branch).toMatchObject({ imported: { at: expect.any(Number), by: "SLUICEBY", head } });
    const second = await imported(again);
    expect(await marks(second)).toEqual([]);
    expect(await second.lifecycle.inspect()).toMatchObject({ imported: { by: "SLUICEBY" } });
    // A fork is made here: its one commit says who made it, and its parent says that it was imported.
    const { branch: fork } = await forkOf(bucket);
    expect(await marks(fork)).toHaveLength(1);
    expect(await fork.lifecycle.inspect()).toMatchObject({
      imported: null,
      fork: { parent: bucket, commit: own },
    });
  });

  test("has the times of files that were written again as they were", async () => {
    const branch = await freshBranch();
    await branch.settings.change({ modified: "file" });
    await put(branch, "a");
    const { now } = Date;
    vi.spyOn(Date, "now").mockImplementation(() => now() + 1000);
    await put(branch, "a");
    const read = await branch.files.read({ path: "a" });
    const modifiedAt = read.ok && read.modifiedAt;
    expect(await (await imported(await exported(branch))).files.read({ path: "a" })).toMatchObject({
      modifiedAt,
    });
    expect(await branch.lifecycle.status()).not.toMatchObject({ modifiedAt });
  });

  test("without any commit is an empty branch", async () => {
    const copy = await imported(await exported(await freshBranch()));
    expect(await copy.history.list({ limit: 10 })).toMatchObject({ ok: true, commits: [] });
    await put(copy, "a");
    await expectRefsRight(copy);
  });

  test("is not there before as much came as its end says, and a page that is sent again changes nothing", async () => {
    const original = await freshBranch();
    for (const path of ["a", "b", "c"]) await put(original, path);
    const all = await exported(original);
    const branch = branchOf(freshBucket());
    const archive = archiveId();
    const started = await begun(branch, all, archive);
    await sent(branch, { ...all, files: all.files.slice(0, -1) }, started);
    const end = { import: started.import, counts: countsOf(all) };
    expect(await branch.imports.finish(end)).toMatchObject({ reason: "bad-archive", path: "counts.files" });
    const left = await begun(branch, all, archive);
    await sent(branch, all, left);
    await sent(branch, all, left);
    expect(await branch.imports.finish(end)).toMatchObject({ ok: true });
    expect(await logOf(branch)).toEqual(await logOf(original));
    expect(await entriesOf(branch)).toEqual(await entriesOf(original));
  });

  test.each([1, 3])("is refused if a file of it is below another one, %i rows a page", async (rows) => {
    const original = await freshBranch();
    await put(original, "a");
    await put(original, "z");
    const all = await exported(original);
    const [first] = all.files;
    const below = all.files.slice(0, 1).map((file): ArchivedFile => ["a/b", ...tailOf(file)]);
    const branch = branchOf(freshBucket());
    expect(first?.[0]).toBe("a");
    const files = [...all.files.slice(0, 1), ...below, ...all.files.slice(1)];
    const sending = sent(branch, { ...all, files }, await begun(branch, all), rows);
    await expect(sending).rejects.toThrow(/bad-archive.*'a\/b' is below 'a'/);
  });

  test.each(["came", "went"])("is refused if a file of it %s with a commit that it lacks", async (what) => {
    const original = await freshBranch();
    const first = (await put(original, "a", "0")) ?? "";
    await original.tags.create({ name: "v1", commit: first, force: false });
    for (let n = 1; n < 9; n++) await put(original, "a", `${n}`);
    await original.settings.change({ keep: { commits: 1 } });
    await givenBack(original);
    const all = await exported(original);
    const there = new Set(all.commits.map(([seq]) => seq));
    const lacking =
      Array.from({ length: all.branch.head }, (_, n) => n + 1).find((seq) => !there.has(seq)) ?? 0;
    expect(lacking).toBeGreaterThan(1);
    const [row] = all.files;
    if (!row) throw new Error("the archive has no file");
    const [path, born, , ...rest] = row;
    const moved: ArchivedFile =
      what === "came" ? [path, lacking, null, ...rest] : [path, born, lacking, ...rest];
    const branch = branchOf(freshBucket());
    const sending = sent(branch, { ...all, files: [moved] }, await begun(branch, all));
    await expect(sending).rejects.toThrow(`came or went with a commit that is not there: ${lacking}`);
  });

  test("is refused if fewer files are there than its commits count", async () => {
    const original = await freshBranch();
    for (const path of ["a", "b"]) await put(original, path);
    const all = await exported(original);
    const less = { ...all, files: all.files.slice(0, 1) };
    const branch = branchOf(freshBucket());
    const started = await begun(branch, all);
    await sent(branch, less, started);
    const end = { import: started.import, counts: countsOf(less) };
    expect(await branch.imports.finish(end)).toMatchObject({ reason: "bad-archive", path: "commits" });
    expect(await branch.lifecycle.status()).toMatchObject({ reason: "no-such-branch" });
  });

  test("is nowhere to be seen before all of it is there", async () => {
    const bucket = freshBucket();
    const all = await exported(await everyKind(freshBucket()));
    const branch = branchOf(bucket);
    const started = await begun(branch, all);
    const look = async () => ({
      status: await branch.lifecycle.status(),
      read: await branch.files.read({ path: "d/one" }),
      position: await branch.feed.position({ commit: all.commits[0]?.[1] ?? "" }),
      feed: (await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 100 })).events,
      announce: await branch.admin.announce(),
      catalogued: await isCatalogued(bucket),
    });
    const nothing = await look();
    expect(nothing).toMatchObject({
      status: { reason: "no-such-branch" },
      position: null,
      feed: [],
      catalogued: false,
    });
    await sent(branch, all, started);
    expect(await look()).toEqual(nothing);
    await restarted(branch);
    expect(await look()).toEqual(nothing);
    await branch.imports.finish({ import: started.import, counts: countsOf(all) });
    expect(await look()).toMatchObject({ status: { ok: true }, read: { ok: true }, catalogued: true });
  });

  test.each([
    [
      "a page of commits",
      /INSERT INTO commits \(gen, seq, id, kind, createdAt, births, deaths, origin, author, annotation, elsewhere\)\s+SELECT/,
    ],
    ["a page of tags", /INSERT INTO tags/],
    ["a page of files", /INSERT INTO files \(gen, path, born, died[^)]*\)\s+SELECT/],
    ["what is kept of how far it is", /UPDATE imports SET seq/],
    ["its end", /INSERT INTO generations/],
    ["the news of it", /UPDATE imports SET state/],
  ])("comes to the same if a crash undoes %s, and it is gone on with", async (_, statement) => {
    const branch = await everyKind(freshBucket());
    const all = await exported(branch);
    const copy = branchOf(freshBucket());
    const archive = archiveId();
    for (let nth = 1; nth <= 2; nth++) {
      const crash = crashAt({ statement, nth });
      const started = await begun(copy, all, archive);
      await sent(copy, all, started)
        .then(async () => await copy.imports.finish({ import: started.import, counts: countsOf(all) }))
        .catch(() => {});
      crash.resume();
      await restarted(copy);
    }
    const again = await begun(copy, all, archive);
    if (!again.done) await sent(copy, all, again);
    const counts = countsOf(all);
    expect(await copy.imports.finish({ import: again.import, counts })).toMatchObject({ ok: true });
    expect(await copy.imports.finish({ import: again.import, counts })).toMatchObject({ ok: true });
    expect(await begun(copy, all, archive)).toMatchObject({ done: true });
    expect(await allOf(copy, ["v1"])).toEqual(await allOf(branch, ["v1"]));
    await expectRefsRight(copy);
  });

  test("gives way to a branch that is made meanwhile, and then leaves nothing", async () => {
    const all = await exported(await everyKind(freshBucket()));
    const branch = branchOf(freshBucket());
    const started = await begun(branch, all);
    await sent(branch, all, started);
    expect(await branch.lifecycle.create()).toMatchObject({ ok: true });
    await put(branch, "mine");
    const taken = { ok: false, reason: "already-exists" };
    expect(await branch.imports.finish({ import: started.import, counts: countsOf(all) })).toEqual(taken);
    expect(await branch.imports.begin({ archive: archiveId(), branch: all.branch })).toEqual(taken);
    await branch.imports.abort({ import: started.import });
    await atRest(branch);
    expect((await entriesOf(branch)).map(({ path }) => path)).toEqual(["mine"]);
    expect(await rowsOf(branch)).toEqual({
      files: 1,
      contents: 1,
      commits: 1,
      tags: 0,
      imports: 0,
      holds: 0,
      blobs: 0,
    });
  });

  test.each([
    ["is given up", async (branch: BranchStub, id: string) => await branch.imports.abort({ import: id })],
    [
      "gets nothing more for a day",
      async (branch: BranchStub) =>
        await runInDurableObject(branch, (_, { storage: { sql } }) => {
          sql.exec("UPDATE imports SET due = 1");
        }),
    ],
    [
      "gives way to that of another archive",
      async (branch: BranchStub) => {
        const { import: id } = await begun(branch, await exported(await freshBranch()));
        await branch.imports.abort({ import: id });
      },
    ],
  ])("that %s leaves no row and no blob", async (_, end) => {
    const all = await exported(await everyKind(freshBucket()));
    const branch = branchOf(freshBucket());
    const started = await begun(branch, all);
    await sent(branch, all, started);
    await end(branch, started.import);
    await atRest(branch);
    expect(await rowsOf(branch)).toEqual({
      files: 0,
      contents: 0,
      commits: 0,
      tags: 0,
      imports: 0,
      holds: 0,
      blobs: 0,
    });
    const gone = { ok: false, reason: "no-such-import" };
    expect(await branch.imports.finish({ import: started.import, counts: countsOf(all) })).toEqual(gone);
    expect(await branch.imports.tags({ import: started.import, after: "v1", tags: [] })).toEqual(gone);
  });

  test("is refused while pipelines follow the name, which would make a job of each old commit", async () => {
    const all = await exported(await everyKind(freshBucket()));
    const branch = branchOf(freshBucket());
    const started = await begun(branch, all);
    await sent(branch, all, started);
    await branch.feed.subscribe({ uid: "P1", pipeline: "edges" });
    const followed = { ok: false, reason: "followed", pipelines: ["edges"] };
    expect(await branch.imports.finish({ import: started.import, counts: countsOf(all) })).toEqual(followed);
    expect((await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 100 })).events).toEqual([]);
    expect(await branch.imports.begin({ archive: archiveId(), branch: all.branch })).toEqual(followed);
    await branch.feed.unsubscribe({ uid: "P1" });
    expect(await branch.imports.finish({ import: started.import, counts: countsOf(all) })).toMatchObject({
      ok: true,
    });
  });

  test("is refused if what comes does not fit together, and nothing of that page is written", async () => {
    const all = await exported(await everyKind(freshBucket()));
    const branch = branchOf(freshBucket());
    const { import: id } = await begun(branch, all);
    const [first, second] = all.commits;
    if (!first || !second) throw new Error("too few commits");
    const changed = (change: Record<number, unknown>) => [
      Object.assign([...second], change) as ArchivedCommit,
    ];
    const bad = (path: string) => ({ ok: false, reason: "bad-archive", path });
    const soon = Date.now() + 2 * 24 * 60 * 60 * 1000;
    for (const commits of [
      [second, first],
      changed({ 0: all.branch.head + 1 }),
      changed({ 2: soon }),
      [first, ...changed({ 2: 1 })],
      [first, ...changed({ 1: first[1] })],
      [first, ...changed({ 3: 0 })],
    ]) {
      const answer = await branch.imports.commits({ import: id, after: 0, commits });
      expect(answer, JSON.stringify(commits)).toMatchObject(
        bad(answer.ok ? "" : "path" in answer ? answer.path : ""),
      );
    }
    const file = { path: "a", born: 1, died: null, ...inline("a"), attributes: {}, more: null };
    const { body: _, ...row } = file;
    type Row = Omit<typeof row, "died" | "more"> & { died: number | null; more: MoreOfFile | null };
    const files = (...some: Partial<Row>[]) =>
      branch.imports.files({
        import: id,
        after: { path: "", born: 0 },
        files: some.map((one) => ({ ...row, ...one })),
        contents: [{ ...inline("a"), bytes: new TextEncoder().encode("a") }],
      });
    // Their commits come first.
    expect(await files({})).toMatchObject(bad("files"));
    await branch.imports.commits({ import: id, after: 0, commits: all.commits });
    expect(
      await branch.imports.tags({ import: id, after: "", tags: [["x", "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1]] }),
    ).toMatchObject(bad("tags[0][1]"));
    for (const some of [
      [{ path: "b" }, { path: "a" }],
      [{ born: 1 }, { born: 2 }],
      [{ born: all.branch.head + 1 }],
      [{ born: 2, died: 2 }],
      [{ path: "dir/" }],
      [{ born: 2, more: { version: 2 } }],
      [{ born: 2, more: { version: all.branch.head + 1 } }],
      [{ more: { unmarked: true as const } }],
      [{ more: { deletion: true as const } }],
      [{ born: 2, died: 3, ...EMPTY, more: { deletion: true as const } }],
      [{ born: 2, died: 2, more: { deletion: true as const } }],
    ]) {
      expect(await files(...some), JSON.stringify(some)).toMatchObject({ reason: "bad-archive" });
    }
    expect(await files({ path: "lacks", digest: "0".repeat(64) })).toEqual({
      ok: false,
      reason: "no-such-content",
      path: "lacks",
    });
    expect(await branch.imports.finish({ import: id, counts: countsOf(all) })).toMatchObject({
      reason: "bad-archive",
    });
    expect(await rowsOf(branch)).toMatchObject({ files: 0, contents: 0, tags: 0 });
  });
});

describe("an export", () => {
  test("has all that was kept when it began, whatever is to be given back meanwhile, which goes when it has ended", async () => {
    const branch = await everyKind(freshBucket());
    await branch.settings.change({ writer: null });
    const quiet = await exported(branch);
    const busy = await exported(branch, async () => {
      await branch.settings.change({ keep: { commits: 1 } });
      await branch.tags.delete({ name: "v1" });
      for (let n = 0; n < 3; n++) {
        await put(branch, "d/one", `${n}`);
        await runDurableObjectAlarm(branch);
      }
    });
    const { tags, ...rest } = quiet;
    expect(busy).toEqual({ ...rest, tags: tags.filter(([name]) => name !== "v1") });
    await givenBack(branch);
    expect((await exported(branch)).commits.length).toBeLessThan(quiet.commits.length);
  });

  test("that begins while history is given back has that wait till it ends", async () => {
    const branch = await freshBranch();
    for (let n = 0; n < 5; n++) await put(branch, "a", `${n}`);
    await branch.settings.change({ keep: { commits: 1 } });
    const execute = Sql.prototype.execute;
    let marked = 0;
    vi.spyOn(Sql.prototype, "execute").mockImplementation(function (this: Sql, text, values) {
      const isMark = /UPDATE commits SET kind = 2[^;]*seq >= \?2/.test(text);
      if (isMark && marked++ === 0) {
        execute.call(
          this,
          `INSERT INTO exports (id, gen, seq, due) SELECT 'E', max(gen), 5, ${Date.now() + 600_000} FROM generations`,
          [],
        );
      }
      return execute.call(this, text, values);
    });
    await runDurableObjectAlarm(branch);
    await expect.poll(() => marked).toBe(1);
    for (let rings = 0; rings < 3; rings++) await runDurableObjectAlarm(branch);
    expect((await rowsOf(branch)).files).toBe(5);
    await branch.exports.end({ export: "E" });
    await givenBack(branch);
    expect((await rowsOf(branch)).files).toBe(1);
  });

  test("has what was there when it began, whatever is written meanwhile", async () => {
    const branch = await everyKind(freshBucket());
    const quiet = await exported(branch);
    const busy = await exported(branch, async () => {
      await branch.settings.change({ writer: null });
      await put(branch, "d/one", "written meanwhile");
      await put(branch, "written meanwhile");
      await branch.files.commit({ operations: [{ delete: "large" }] });
      await branch.tags.create({ name: "meanwhile", force: false });
    });
    expect(busy).toEqual(quiet);
  });

  test("ends if something of the branch is erased, since no archive has half of what was before that and half of what is after", async () => {
    const branch = await everyKind(freshBucket());
    await branch.settings.change({ writer: null });
    const begun = await branch.exports.begin();
    if (!begun.ok) throw new Error(begun.reason);
    const { export: id } = begun;
    const files = { export: id, after: { path: "", born: 0 } };
    expect(await branch.exports.files(files)).toMatchObject({ ok: true });
    // What is no version ends nothing.
    await branch.erasures.erase({ versions: [{ path: "d/one", version: "01ARZ3NDEKTSV4RRFFQ69G5FAV" }] });
    expect(await branch.exports.files(files)).toMatchObject({ ok: true });
    const [, version = ""] = (await exported(branch)).commits.at(-1) ?? [];
    await erase(branch, "d/one", version);
    expect(await branch.exports.files(files)).toEqual({ ok: false, reason: "no-such-export" });
    expect(await branch.exports.commits({ export: id, after: 0 })).toEqual({
      ok: false,
      reason: "no-such-export",
    });
  });

  test("ends if a commit is redacted, and what is made of the next one tells by whom and when, and no more", async () => {
    const branch = await freshBranch();
    const annotation = { key: "k1", message: "for ada", meta: { ticket: "no-77" } };
    const made = await branch.files.put({ path: "a", content: inline("a"), attributes: {}, annotation });
    const commit = committed(made) ?? "";
    const begun = await branch.exports.begin();
    if (!begun.ok) throw new Error(begun.reason);
    const done = await branch.history.redact({ commit, key: "boss" });
    if (!done.ok) throw new Error(done.reason);
    const { redacted } = done;
    expect(await branch.exports.commits({ export: begun.export, after: 0 })).toEqual({
      ok: false,
      reason: "no-such-export",
    });
    const all = await exported(branch);
    expect(JSON.stringify(all)).not.toMatch(/for ada|no-77/);
    const copy = await imported(all);
    expect(await copy.history.commit({ commit })).toMatchObject({
      ok: true,
      annotation: { key: "k1", redacted },
    });
    // There is nothing left to take out.
    expect(await copy.history.redact({ commit, key: "other" })).toEqual({ ...done, change: "none" });
  });

  test("leaves no annotation behind in a life of before, once the commit that came back is redacted", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    const annotation = { key: "k1", message: "for ada" };
    const commit =
      committed(await branch.files.put({ path: "a", content: inline("a"), attributes: {}, annotation })) ??
      "";
    const all = await exported(branch);
    // It keeps the commit of before.
    await forkOf(bucket);
    await branch.lifecycle.destroy();
    await imported(all, bucket);
    const annotations = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        sql.exec("SELECT annotation FROM commits WHERE annotation IS NOT NULL ORDER BY gen").toArray(),
      );
    expect(await annotations()).toHaveLength(2);
    const done = await branch.history.redact({ commit, key: "boss" });
    if (!done.ok) throw new Error(done.reason);
    expect(await annotations()).toEqual([{ annotation: JSON.stringify({ redacted: done.redacted }) }]);
  });

  test("ends with its branch, and by itself if nobody reads", async () => {
    const branch = await everyKind(freshBucket());
    const first = await branch.exports.begin();
    const second = await branch.exports.begin();
    if (!first.ok || !second.ok) throw new Error("no export");
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE exports SET due = 1 WHERE id = ?", first.export);
    });
    const gone = { ok: false, reason: "no-such-export" };
    expect(await branch.exports.commits({ export: first.export, after: 0 })).toEqual(gone);
    expect(await branch.exports.commits({ export: second.export, after: 0 })).toMatchObject({ ok: true });
    await branch.lifecycle.destroy({ key: "SLUICE1" });
    expect(await branch.exports.commits({ export: second.export, after: 0 })).toEqual(gone);
    expect(await branch.exports.begin()).toEqual({ ok: false, reason: "no-such-branch" });
  });
});

/** How many rows an object has of what an import brings. */
function rowsOf(branch: BranchStub): Promise<Record<string, number>> {
  const tables = ["files", "contents", "commits", "tags", "imports", "holds", "blobs"];
  return runInDurableObject(branch, (_, { storage: { sql } }) =>
    Object.fromEntries(
      tables.map((table) => [table, Number(sql.exec(`SELECT count(*) AS n FROM ${table}`).one().n)]),
    ),
  );
}
