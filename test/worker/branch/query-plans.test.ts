import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { Branch } from "../../../worker/branch/branch.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { DIFFERENCES } from "../../../worker/branch/history/diff.ts";
import { ALIVE_ALL, BORN_SINCE, DIED_NEXT, DIED_SINCE, PAST } from "../../../worker/branch/read/walk.ts";
import { AT_WORK } from "../../../worker/branch/settings/lifecycle-scan-store.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { numbered, pagesOf } from "./large-support.ts";
import { branchOf, chunked, committed, completion, freshBucket, inline, joined } from "./support.ts";
import { UNKEPT } from "./unkept.ts";

/** The tables that grow with the history and its files. */
const GROWING = [
  "files",
  "alive",
  "dead",
  "there",
  "version",
  "commits",
  "contents",
  "blobs",
  "pending_deletions",
  "uploads",
  "holds",
  "multiparts",
  "parts",
  "completions",
  "open_commits",
  "staged",
  "below",
  "tags",
  "untagged",
  "roots",
  "named",
  "parent",
  "held",
  "revived",
  "lineages",
];
/** Tables that grow, as statements name them whose names begin others. */
const GROWING_TOO = ["f", "c", "other", "next", "erasures", "fork_holds", "give_backs"];
/** Sort what they found by index; bounded by NEAR_HEAD_CHANGES, NEAR_BIRTHS, the paths asked about, and the rules that there may be. */
const MAY_SORT = [DIED_SINCE, BORN_SINCE, DIFFERENCES, AT_WORK];

/** Calls whatever a Branch object can do. */
async function useEverything(branch: BranchApi): Promise<void> {
  await branch.lifecycle.create();
  await branch.feed.subscribe({ uid: "u", pipeline: "p" });
  const attributes = { contentType: "text/plain" };
  const first = await branch.files.put({ path: "d/a/x", content: inline("1"), attributes });
  await branch.files.put({ path: "d/a/x", content: inline("2"), attributes });
  for (const content of [chunked("3", ["b/1"]), chunked("3", ["b/2"])]) {
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    await branch.uploads.add({ upload, contents: [content] });
    await branch.uploads.renew({ upload });
    await branch.uploads.reserve({ upload, contents: [content] });
    await branch.files.put({ path: "d/b", content, attributes, upload });
  }
  const aborted = await branch.uploads.open({});
  if (!aborted.ok) throw new Error(aborted.reason);
  await branch.uploads.add({ upload: aborted.upload, contents: [chunked("4", ["b/4"])] });
  await branch.uploads.abort({ upload: aborted.upload });
  await branch.files.commit({ operations: [{ delete: "d/a/x" }, { put: "d", ...inline("2") }] });
  await branch.files.commit({
    operations: [{ delete: "d/a/x" }, { delete: "d/b" }, { put: "d", ...inline("2") }],
  });
  await branch.files.setTags({ path: "d", tags: [["a", "1"]] });
  const commit = first.ok && first.commit ? first.commit : "";
  for (const delimiter of ["/", undefined] as const) {
    const page = { prefix: "d", limit: 2, ...(delimiter && { delimiter }) };
    await branch.files.list(page);
    await branch.files.list({ ...page, commit });
  }
  for (const delimiter of ["/", undefined] as const) {
    const page = { prefix: "d", limit: 1, ...(delimiter && { delimiter }) };
    await branch.files.list({ ...page, modified: "file" });
    await branch.files.versions(page);
    await branch.files.versions({ ...page, after: { path: "d/a/x", version: commit } });
  }
  await useMultiparts(branch);
  await useOpenCommits(branch);
  await useViews(branch, commit);
  await useForks(branch, commit);
  await branch.lifecycle.status();
  await branch.admin.sums();
  await branch.files.read({ path: "d" });
  await branch.files.read({ path: "d", commit });
  const kept = await branch.files.read({ path: "d", have: null });
  await branch.files.put({ path: "e", content: inline("3"), attributes: {} });
  await branch.files.read({ path: "d", have: (kept.ok && kept.stamp) || null });
  await branch.files.content(inline("1"));
  const position = { generation: 1, seq: 2 };
  await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 5 });
  await branch.feed.changes({ ...position, after: "", limit: 5 });
  await branch.feed.filesAt({ ...position, prefix: "", after: "", limit: 5 });
  await branch.feed.fingerprint({ ...position, path: "", since: { generation: 1, seq: 1 } });
  await branch.feed.position({ commit });
  await useChecks(branch);
  await branch.feed.unsubscribe({ uid: "u" });
  await useErasures(branch);
  await useRetention(branch, commit);
  await useExports(branch);
  await branch.lifecycle.destroy();
  const claim = await branch.output.claim({ pipeline: "p", uid: "u" });
  await branch.uploads.open({ lease: "l" });
  if (claim.ok) {
    const { epoch } = claim;
    const job = { uid: "u", epoch, operations: [{ delete: "x" }] };
    await branch.output.commit({ ...job, origin: "j" });
    for (const anew of [true, false]) await branch.output.stage({ ...job, origin: "k", anew });
    await branch.output.commit({ ...job, origin: "k", operations: [], staged: true });
    await branch.output.stage({ ...job, origin: "l", anew: true });
  }
  await branch.output.release({ uid: "u", destroy: true });
  await useImports(branch);
}

/** Erases versions of all kinds, while a reader has yet to hear of them and a fork has their bytes. */
async function useErasures(branch: BranchApi): Promise<void> {
  const write = async (path: string, text: string) => {
    const version = committed(await branch.files.put({ path, content: inline(text), attributes: {} }));
    return { path, version: version ?? "" };
  };
  const remove = async (path: string) => {
    const version = committed(await branch.files.commit({ operations: [{ delete: path }] }));
    return { path, version: version ?? "" };
  };
  await branch.feed.subscribe({ uid: "r", pipeline: "p" });
  const [first, second] = [await write("erased/a", "e1"), await write("erased/a", "e2")];
  const [dead, gone] = [await write("erased/b", "e3"), await remove("erased/b")];
  await write("erased/c/d", "e4");
  const deleted = await remove("erased/c/d");
  await branch.erasures.spans({ versions: [first, second] });
  await branch.forks.addRoot({ fork: "g", bucket: "x.y" });
  await branch.erasures.erase({ versions: [second, dead, deleted] });
  const has = [inline("e1")];
  const forks = [{ fork: "g", has }];
  // `first` is current again, under its own name; `gone` is all that is left of its path.
  for (const versions of [
    [second, dead, deleted],
    [first, gone],
  ]) {
    expect(await branch.erasures.erase({ versions, forks })).toMatchObject({ ok: true });
  }
  // So many that their contents are looked up ahead.
  const many = Array.from({ length: 201 }, (_, n) => ({ path: `none/${n}`, version: first.version }));
  await branch.erasures.erase({ versions: many });
  await branch.forks.giveBack({ fork: "g", contents: has, number: 1 });
  await branch.forks.dropRoot({ fork: "g" });
  const { upTo } = await branch.erasures.list({ uid: "r", after: 0 });
  await branch.erasures.list({ uid: "r", after: upTo });
  await branch.feed.unsubscribe({ uid: "r" });
}

async function useExports(branch: BranchApi): Promise<void> {
  const begun = await branch.exports.begin();
  if (!begun.ok) throw new Error(begun.reason);
  const { export: id } = begun;
  await branch.exports.commits({ export: id, after: 0 });
  await branch.exports.tags({ export: id, after: "" });
  await branch.exports.files({ export: id, after: { path: "", born: 0 } });
  await branch.exports.end({ export: id });
}

/** Of an archive that is given up, and then of one that is finished. */
async function useImports(branch: BranchApi): Promise<void> {
  const settings = { public: false, cors: null, writer: null, modified: null, emptyOnly: false };
  for (const archive of ["0", "1"]) {
    const head = { createdAt: 1, head: 1, floor: 0, settings };
    const begun = await branch.imports.begin({ archive: archive.repeat(64), branch: head });
    if (!begun.ok) throw new Error(begun.reason);
    const { import: id } = begun;
    const commit = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const lineage = JSON.stringify({ P1: 1 });
    await branch.imports.commits({
      ...{ import: id, after: 0, commits: [[1, commit, 1, 1, 0, "J1", "K1", null, lineage, 0]] },
    });
    await branch.imports.tags({ import: id, after: "", tags: [["v1", commit, 1]] });
    const { digest, size, body } = inline("imported");
    const bytes = body.kind === "inline" ? body.bytes : new Uint8Array(0);
    await branch.imports.files({
      ...{ import: id, after: { path: "", born: 0 }, contents: [{ digest, size, bytes }] },
      files: [{ path: "a", born: 1, died: null, digest, size, attributes: {}, more: null }],
    });
    if (archive === "0") await branch.imports.abort({ import: id });
    const counts = { commits: 1, tags: 1, files: 1 };
    const finished = await branch.imports.finish({ import: id, counts });
    expect(finished.ok).toBe(archive === "1");
  }
  await branch.lifecycle.destroy();
}

async function useChecks(branch: BranchApi): Promise<void> {
  await branch.files.keepBlobs({ blobs: ["b/1", "b/4"] });
  for (const after of [null, { gen: 1, path: "a", born: 1 }]) await branch.admin.checkNames({ after });
  await branch.admin.checkContents({ after: 0 });
  await branch.admin.namesOf({ ...inline("2"), gen: 1, limit: 5 });
  const swept = await branch.admin.sweep({ remove: true });
  if (swept.ok) await branch.admin.sweepStatus(swept);
}

async function useViews(branch: BranchApi, commit: string): Promise<void> {
  for (const name of ["v1", "v2"]) await branch.tags.create({ name, commit, force: true });
  await branch.tags.create({ name: "v2", force: true });
  await branch.tags.find({ name: "v1" });
  await branch.files.put({
    path: "d/noted",
    content: inline("n"),
    attributes: {},
    annotation: { message: "n" },
  });
  const log = await branch.history.list({ limit: 1 });
  for (const name of [log.ok ? (log.commits[0]?.id ?? "") : "", commit]) {
    await branch.history.redact({ commit: name, key: "k" });
  }
  await branch.tags.delete({ name: "v2" });
  for (const view of [commit, "v1"]) {
    await branch.files.view({ view });
    await branch.files.read({ path: "d/a/x", openCommit: view });
    await branch.files.list({ prefix: "d", limit: 2, openCommit: view });
    await branch.uploads.open({ openCommit: view });
  }
}

async function useMultiparts(branch: BranchApi): Promise<void> {
  for (const round of [1, 2]) {
    const path = `m/${round}`;
    const opened = await branch.multipart.create({ path, attributes: {}, ttlMs: 1000 });
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    const [one, two] = [chunked("one", ["b/p1"]), chunked("two", ["b/p2"])];
    for (const content of [two, one]) await branch.multipart.addPart({ upload, number: 1, content });
    await branch.multipart.addPart({ upload, number: 2, content: two });
    await branch.multipart.addPart({ upload, number: 3, content: { ...joined([one]), body: two.body } });
    await branch.multipart.parts({ upload, after: 0, limit: 1 });
    await branch.multipart.bodies({ upload, numbers: [2, 1] });
    await branch.multipart.status({ upload });
    await branch.multipart.saveProgress({ upload, progress: "half" });
    await branch.multipart.list({ prefix: "m/", limit: 1, after: { path, upload } });
    if (round === 1) await branch.multipart.complete(completion(upload, { 1: one, 2: two }));
    else await branch.multipart.abort({ upload });
    await branch.multipart.status({ upload });
  }
}

/** Keeps one commit, and those that something names. */
async function useRetention(branch: BranchApi, commit: string): Promise<void> {
  const at = { generation: 1, seq: 1 };
  await branch.feed.subscribe({ uid: "n", pipeline: "p", starts: [{ commit, ...at }] });
  await branch.feed.setMark({ uid: "n", generation: 2, seq: 0, job: null, starts: [{ commit, ...at }] });
  await branch.settings.change({ keep: { commits: 1, days: 1 } });
  await branch.settings.change({ keep: { commits: 1 } });
  await vi.waitUntil(async () => (await branch.feed.read({ cursor: at, limit: 5 })).events[0]?.gap, 60_000);
  await branch.files.read({ path: "d/a/x", commit });
  await branch.history.list({ limit: 2 });
  await branch.history.list({ limit: 2, after: commit, summary: true });
  await branch.feed.unsubscribe({ uid: "n" });
}

/** Is the parent of a fork, and goes back to a commit. */
async function useForks(branch: BranchApi, commit: string): Promise<void> {
  const root = { fork: "f", bucket: "x.y", commit };
  for (let time = 0; time < 2; time++) await branch.forks.addRoot(root);
  await branch.forks.rootPage({ fork: "f", after: "" });
  await branch.forks.dropRoot({ fork: "f" });
  await branch.lifecycle.inspect();
  const begun = await branch.openCommits.revert({ commit });
  if (!begun.ok) throw new Error(begun.reason);
  await vi.waitUntil(async () => {
    const status = await branch.openCommits.status(begun);
    return !status.ok || status.state === "finished";
  }, 60_000);
}

async function useOpenCommits(branch: BranchApi): Promise<void> {
  for (const paths of [["s/1"], ["s/1", ...numbered("s/", 9999)], numbered("t/", 20_001)]) {
    const opened = await branch.openCommits.start({ ttlMs: 1000 });
    if (!opened.ok) throw new Error(opened.reason);
    const { openCommit } = opened;
    await branch.files.put({ openCommit, path: "s/0", content: inline("2"), attributes: {} });
    await branch.files.put({ openCommit, path: "s/0", content: inline(`${paths.length}`), attributes: {} });
    for (const page of pagesOf(paths.map((path) => ({ delete: path })))) {
      await branch.files.commit({ openCommit, operations: page });
    }
    await branch.files.read({ openCommit, path: "s/0" });
    await branch.files.list({ openCommit, prefix: "s", delimiter: "/", limit: 2 });
    await branch.openCommits.status({ openCommit });
    await branch.openCommits.finish({ openCommit });
    await vi.waitUntil(async () => {
      const status = await branch.openCommits.status({ openCommit });
      return !status.ok || status.state === "finished";
    }, 60_000);
    await branch.openCommits.abort({ openCommit });
  }
  const aborted = await branch.openCommits.start({ ttlMs: 1000 });
  if (!aborted.ok) throw new Error(aborted.reason);
  await branch.files.put({
    openCommit: aborted.openCommit,
    path: "s/0",
    content: inline("5"),
    attributes: {},
  });
  await branch.openCommits.abort(aborted);
}

/** The columns of `(a, b) IN (...)` in a statement that changes rows, which are to be found by all of them. */
function lookedUpBy(text: string): string[] {
  const [, columns] = /^\s*(?:UPDATE|DELETE)\b.*?\((\w+(?:, \w+)+)\) IN \(/s.exec(text) ?? [];
  return columns?.split(", ") ?? [];
}

/** The steps that SQLite takes for a statement. */
function planOf({ storage }: DurableObjectState, text: string): string[] {
  const numbered = [...text.matchAll(/\?(\d+)/g)].map(([, n]) => Number(n));
  const values = numbered.length > 0 ? Math.max(...numbered) : text.split("?").length - 1;
  return storage.sql
    .exec(`EXPLAIN QUERY PLAN ${text}`, ...Array.from({ length: values }, () => null))
    .toArray()
    .map(({ detail }) => String(detail));
}

describe("query plans", () => {
  test("no statement scans or sorts a table that grows", async () => {
    const statements = vi.spyOn(Sql.prototype, "execute");
    await runInDurableObject(branchOf(freshBucket()), async (branch: Branch, state) => {
      await useEverything(clientOf<BranchApi>(branch));
      await branch.alarm();
      const planned = [
        ...new Set([...statements.mock.calls.map(([text]) => text), PAST, ALIVE_ALL, DIED_NEXT]),
      ].filter((text) => /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)/.test(text) && text !== UNKEPT);
      expect(planned.length).toBeGreaterThan(120);
      for (const text of planned) {
        const plan = planOf(state, text);
        const scans = plan.filter(
          (detail) =>
            GROWING.some((table) => detail.startsWith(`SCAN ${table}`)) ||
            GROWING_TOO.some((table) => `${detail} `.startsWith(`SCAN ${table} `)),
        );
        expect(scans, text).toEqual([]);
        for (const column of lookedUpBy(text)) {
          const search = plan.find((detail) => detail.startsWith("SEARCH"));
          expect(search, text).toMatch(new RegExp(`\\b${column}=\\?`));
        }
        if (!MAY_SORT.includes(text))
          expect(
            plan.filter((detail) => detail.includes("TEMP B-TREE")),
            text,
          ).toEqual([]);
      }
    });
  });

  test("whether there is a path at HEAD, and which comes next, is answered by an index alone", async () => {
    const statements = vi.spyOn(Sql.prototype, "execute");
    await runInDurableObject(branchOf(freshBucket()), async (branch: Branch, state) => {
      const { lifecycle, files } = clientOf<BranchApi>(branch);
      await lifecycle.create();
      await files.put({ path: "d/a", content: inline("1"), attributes: {} });
      await files.list({ prefix: "", delimiter: "/", limit: 10 });
      const paths = [...new Set(statements.mock.calls.map(([text]) => text))].filter((text) =>
        /SELECT (1|path) FROM files INDEXED BY head/.test(text),
      );
      expect(paths.length).toBeGreaterThan(1);
      for (const text of paths) {
        const plan = planOf(state, text).filter((detail) => detail.startsWith("SEARCH files"));
        expect(plan.length, text).toBeGreaterThan(0);
        for (const detail of plan) expect(detail, text).toContain("USING COVERING INDEX head");
      }
    });
  });
});
