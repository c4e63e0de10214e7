import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Annotation } from "../../../worker/branch/contract/answers.ts";
import type { PathDifference } from "../../../worker/branch/contract/history.ts";
import { LIVES, STATES } from "../../../worker/branch/history/compare.ts";
import {
  CHANGED_IN_ONE,
  CHANGED_IN_SPAN,
  DIFFERENCES,
  EVERY_PATH,
} from "../../../worker/branch/history/diff.ts";
import { seededRandom } from "../../support/random.ts";
import { crashAt } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  byBytes,
  chunked,
  commitFiles,
  committed,
  completion,
  DAY_MS,
  freshBranch,
  freshBucket,
  inline,
  put,
} from "./support.ts";

/** Every page of a difference. */
async function diffOf(
  branch: BranchStub,
  { from, to, limit = 1000 }: { from: string | null; to: string; limit?: number },
): Promise<PathDifference[]> {
  const changes: PathDifference[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page: Awaited<ReturnType<BranchStub["history"]["diff"]>> = await branch.history.diff({
      from,
      to,
      after,
      limit,
    });
    if (!page.ok) throw new Error(page.reason);
    expect(page.changes.length).toBeLessThanOrEqual(limit);
    changes.push(...page.changes);
    after = page.next;
  }
  return changes;
}

/** `+a`, `-a`, `~a`. */
function signed(changes: readonly PathDifference[]): string[] {
  return changes.map(({ path, before, after }) => `${before ? (after ? "~" : "-") : "+"}${path}`);
}

/** Makes a span look as if so much changed in it that sorting it for each page would be too dear. */
async function makeSpansLong(branch: BranchStub): Promise<void> {
  await runInDurableObject(branch, (_, { storage }) => {
    storage.sql.exec("UPDATE commits SET births = births + seq * 100000");
  });
}

const PATHS = ["a", "b", "c/d", "c/e", "c0", "f/g/h", "ü", "𝒂"];
type Tree = ReadonlyMap<string, string>;
type Pick = (most: number) => number;

function picker(seed: number): Pick {
  const random = seededRandom(seed);
  return (most) => Math.floor(random() * most);
}

/** Thirty commits of random puts and deletes, and the tree after each. */
async function randomHistory(branch: BranchStub, pick: Pick): Promise<{ commits: string[]; trees: Tree[] }> {
  const commits: string[] = [];
  const trees: Tree[] = [];
  while (commits.length < 30) {
    const before = trees.at(-1) ?? new Map();
    const { puts, deletes } = randomChange(before, pick);
    const made = await commitFiles(branch, { puts, deletes });
    if (!made.ok || made.commit === null) continue;
    const kept = [...before].filter(([path]) => !deletes.includes(path));
    trees.push(new Map([...kept, ...Object.entries(puts)]));
    commits.push(made.commit);
  }
  return { commits, trees };
}

function randomChange(tree: Tree, pick: Pick): { puts: Record<string, string>; deletes: string[] } {
  const touched = PATHS.filter(() => pick(3) === 0);
  const deletes = touched.filter((path) => tree.has(path) && pick(2) === 0);
  const puts = touched.filter((path) => !deletes.includes(path)).map((path) => [path, `${pick(3)}`]);
  return { puts: Object.fromEntries(puts), deletes };
}

function naiveDiff(from: Tree, to: Tree): string[] {
  const differing = PATHS.filter((path) => from.get(path) !== to.get(path));
  return differing.map((path) => `${from.has(path) ? (to.has(path) ? "~" : "-") : "+"}${path}`);
}

describe("the commits of a branch", () => {
  test("are listed newest first, in pages, with their parents and what they changed", async () => {
    const branch = await freshBranch();
    const first = committed(await commitFiles(branch, { puts: { a: "1", b: "1" } }));
    const second = committed(await commitFiles(branch, { puts: { a: "2", c: "1" }, deletes: ["b"] }));
    const log = await branch.history.list({ limit: 1 });
    if (!log.ok) throw new Error(log.reason);
    expect(log).toMatchObject({
      commits: [{ id: second, parent: first, origin: null, changes: { written: 2, ended: 2 } }],
      next: second,
    });
    expect(await branch.history.list({ limit: 1, after: second ?? "" })).toMatchObject({
      commits: [{ id: first, parent: null, changes: { written: 2, ended: 0 } }],
      next: null,
    });
    expect(await branch.history.commit({ commit: first ?? "" })).toMatchObject({
      ok: true,
      id: first,
      parent: null,
    });
  });

  test("are added up if that is asked: files, bytes and the first path", async () => {
    const branch = await freshBranch();
    await commitFiles(branch, { puts: { a: "1", b: "1", c: "1" } });
    await commitFiles(branch, { puts: { "a/b": "four", b: "333" }, deletes: ["a", "c"] });
    await commitFiles(branch, { puts: {}, deletes: ["b"] });
    const log = await branch.history.list({ limit: 10, summary: true });
    expect(log.ok && log.commits.map(({ summary }) => summary)).toEqual([
      { path: "b", added: 0, changed: 0, deleted: 1, bytes: -3 },
      { path: "a", added: 1, changed: 1, deleted: 2, bytes: 4 },
      { path: "a", added: 3, changed: 0, deleted: 0, bytes: 3 },
    ]);
    const plain = await branch.history.list({ limit: 1 });
    expect(plain.ok && "summary" in (plain.commits[0] ?? {})).toBe(false);
  });

  test("are not added up beyond what a page may cost, nor if rows of theirs are gone", async () => {
    const branch = await freshBranch();
    for (const n of ["1", "2"]) await commitFiles(branch, { puts: { a: n } });
    const newest = committed(await commitFiles(branch, { puts: { a: "3" } })) ?? "";
    await runInDurableObject(branch, (_, { storage }) => {
      storage.sql.exec("UPDATE commits SET births = births + 9997 WHERE seq >= 2");
    });
    const log = await branch.history.list({ limit: 10, summary: true });
    // The second looks as if it had written 9,998 files, of which one is there.
    const changed = (answer: typeof log) =>
      answer.ok && answer.commits.map(({ summary }) => summary?.changed ?? null);
    expect(changed(log)).toEqual([1, null, 0]);
    expect(changed(await branch.history.list({ limit: 10, after: newest, summary: true }))).toEqual([
      null,
      0,
    ]);
  });

  test("name the job that made them", async () => {
    const branch = branchOf(freshBucket());
    const claim = await branch.output.claim({ pipeline: "p", uid: "u" });
    if (!claim.ok) throw new Error(claim.reason);
    await branch.output.commit({ uid: "u", epoch: claim.epoch, origin: "job-1", operations: [] });
    const log = await branch.history.list({ limit: 10 });
    expect(log).toMatchObject({ commits: [{ origin: "job-1", changes: { written: 0, ended: 0 } }] });
  });

  test("are those since the branch was made last", async () => {
    const branch = await freshBranch();
    const before = (await put(branch, "a")) ?? "";
    await branch.lifecycle.destroy();
    expect(await branch.history.list({ limit: 1 })).toEqual({ ok: false, reason: "no-such-branch" });
    await branch.lifecycle.create();
    const unknown = { ok: false, reason: "no-such-version" };
    expect(await branch.history.list({ limit: 1 })).toMatchObject({ commits: [], next: null });
    expect(await branch.history.list({ limit: 1, after: before })).toEqual(unknown);
    expect(await branch.history.commit({ commit: before })).toEqual(unknown);
    const now = (await put(branch, "b")) ?? "";
    expect(await branch.history.diff({ from: before, to: now, after: "", limit: 1 })).toEqual(unknown);
    expect(await branch.history.diff({ from: now, to: before, after: "", limit: 1 })).toEqual(unknown);
  });

  test("of a branch that never was leave no trace of the question", async () => {
    const branch = branchOf(freshBucket());
    const no = { ok: false, reason: "no-such-branch" };
    expect(await branch.history.list({ limit: 1 })).toEqual(no);
    expect(await branch.history.commit({ commit: "x" })).toEqual(no);
    expect(await branch.history.diff({ from: null, to: "x", after: "", limit: 1 })).toEqual(no);
    const tables = await runInDurableObject(branch, (_, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'files'").toArray(),
    );
    expect(tables).toEqual([]);
  });
});

describe("a difference", () => {
  test("names what was added, changed and deleted, with contents on both sides", async () => {
    const branch = await freshBranch();
    const one = committed(await commitFiles(branch, { puts: { a: "1", b: "1", "d/e": "1" } })) ?? "";
    const two = committed(await commitFiles(branch, { puts: { b: "2", c: "1" }, deletes: ["d/e"] })) ?? "";
    const [b, c, e] = await diffOf(branch, { from: one, to: two });
    const idOf = ({ digest, size }: { digest: string; size: number }) => ({ digest, size });
    expect(b).toEqual({ path: "b", before: idOf(inline("1")), after: idOf(inline("2")) });
    expect(c).toEqual({ path: "c", before: null, after: idOf(inline("1")) });
    expect(e).toEqual({ path: "d/e", before: idOf(inline("1")), after: null });
    expect(signed(await diffOf(branch, { from: two, to: one }))).toEqual(["~b", "-c", "+d/e"]);
    expect(signed(await diffOf(branch, { from: null, to: one }))).toEqual(["+a", "+b", "+d/e"]);
    expect(await diffOf(branch, { from: two, to: two })).toEqual([]);
  });

  test("leaves out what came and went, or is again as it was", async () => {
    const branch = await freshBranch();
    const one = (await put(branch, "a", "1")) ?? "";
    await put(branch, "a", "2");
    await put(branch, "gone");
    await branch.files.commit({ operations: [{ delete: "gone" }] });
    const last = (await put(branch, "a", "1")) ?? "";
    expect(await diffOf(branch, { from: one, to: last })).toEqual([]);
  });

  test("names a file whose attributes alone changed", async () => {
    const branch = await freshBranch();
    const one = (await put(branch, "a", "1")) ?? "";
    const attributes = { contentType: "text/html" };
    const two = committed(await branch.files.put({ path: "a", content: inline("1"), attributes })) ?? "";
    const [change] = await diffOf(branch, { from: one, to: two });
    expect(change?.before).toEqual(change?.after);
  });

  test("is what a naive comparison of the two trees says, whatever way it is found and however it is paged", async () => {
    const branch = await freshBranch();
    const pick = picker(7);
    const { commits, trees } = await randomHistory(branch, pick);
    const check = async (): Promise<void> => {
      for (let time = 0; time < 40; time++) {
        const [from, to] = [pick(commits.length), pick(commits.length)];
        const asked = { from: commits[from] ?? "", to: commits[to] ?? "", limit: 1 + pick(4) };
        const found = await diffOf(branch, asked);
        expect(signed(found)).toEqual(naiveDiff(trees[from] as Tree, trees[to] as Tree));
      }
    };
    await check();
    await makeSpansLong(branch);
    await check();
  });

  test("goes by seeks: no query of it walks a table", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const values: Record<string, unknown[]> = {
      [CHANGED_IN_ONE]: [1, "", 10, 1, "z"],
      [CHANGED_IN_SPAN]: [1, "", 10, 0, 1],
      [EVERY_PATH]: [1, "", 10],
      [DIFFERENCES]: [1, 0, 1, "[]"],
      [LIVES]: [1, "", "z", 10],
      [STATES]: [1, "[]", 1],
    };
    for (const [text, bound] of Object.entries(values)) {
      const plan = await runInDurableObject(branch, (_, { storage }) =>
        storage.sql
          .exec(`EXPLAIN QUERY PLAN ${text}`, ...(bound as (string | number)[]))
          .toArray()
          .map(({ detail }) => String(detail)),
      );
      const walks = plan.filter((line) => /^SCAN (files|a|b|there)\b/.test(line));
      expect(walks, text).toEqual([]);
    }
  });
});

/** What became of a path and of what is below it, by two whole trees. */
function naiveCompare(path: string, [before, after]: readonly [Tree, Tree]): unknown {
  const isBelow = (one: string): boolean => path === "" || one === path || one.startsWith(`${path}/`);
  const paths = [...new Set([...before.keys(), ...after.keys()])].filter(isBelow).sort(byBytes);
  const changed = paths.filter((one) => before.get(one) !== after.get(one));
  return {
    path,
    was: [...before.keys()].some(isBelow),
    changed: changed.slice(0, 5),
    more: changed.length > 5,
  };
}

describe("a comparison of paths", () => {
  test("is what a naive one of the two trees says, of files, directories and the root", async () => {
    const branch = await freshBranch();
    const pick = picker(11);
    const { commits, trees } = await randomHistory(branch, pick);
    const places = await Promise.all(commits.map((commit) => branch.feed.position({ commit })));
    const paths = ["", "a", "b", "c", "c/d", "f", "f/g", "nothing", "ü"];
    for (let time = 0; time < 30; time++) {
      const to = pick(commits.length);
      const from = time % 2 === 0 ? Math.max(0, to - 1) : pick(to + 1);
      const [start, end] = [places[from], places[to]];
      if (!start || !end) throw new Error("a commit has no place");
      const answer = await branch.feed.compare({ from: start, to: end, paths });
      const found = answer?.paths.map(({ changes, ...one }) => ({
        ...one,
        changed: changes.map(({ path }) => path),
      }));
      const sides = [trees[from] as Tree, trees[to] as Tree] as const;
      expect(found).toEqual(paths.map((path) => naiveCompare(path, sides)));
    }
  });

  test("tells the first changes and that there are more, and looks at so many rows alone", async () => {
    const branch = await freshBranch();
    const many = Object.fromEntries(
      Array.from({ length: 2100 }, (_, n) => [`d/${String(n).padStart(4, "0")}`, "1"]),
    );
    const one = committed(await commitFiles(branch, { puts: { ...many, e: "1" } })) ?? "";
    const two = committed(await commitFiles(branch, { puts: { "d/2099": "2", e: "2" } })) ?? "";
    await put(branch, "other");
    const three =
      committed(
        await commitFiles(branch, { puts: Object.fromEntries(Object.keys(many).map((path) => [path, "3"])) }),
      ) ?? "";
    const [first, second, last] = await Promise.all(
      [one, two, three].map((commit) => branch.feed.position({ commit })),
    );
    if (!first || !second || !last) throw new Error("a commit has no place");
    const told = async (from: typeof first, to: typeof first) =>
      (await branch.feed.compare({ from, to, paths: ["d"] }))?.paths.map(({ was, changes, more }) => ({
        was,
        changes: changes.length,
        more,
      }));
    expect(await told(first, second)).toEqual([{ was: true, changes: 1, more: false }]);
    expect(await told(second, last)).toEqual([{ was: true, changes: 5, more: true }]);
    // Over several commits each life is looked at, up to a bound: what is behind it may have changed.
    const other = { ...second, seq: second.seq + 1 };
    expect(await told(first, other)).toEqual([{ was: true, changes: 0, more: true }]);
  });

  test("knows other lives of the branch, and no positions that never were", async () => {
    const branch = await freshBranch();
    await commitFiles(branch, { puts: { a: "1", "d/e": "1" } });
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    await commitFiles(branch, { puts: { a: "2", "d/e": "1", b: "1" } });
    const from = { generation: 1, seq: 1 };
    const to = { generation: 2, seq: 1 };
    const answer = await branch.feed.compare({ from, to, paths: ["a", "b", "d"] });
    expect(answer?.paths).toMatchObject([
      { path: "a", was: true, changes: [{ path: "a", after: { size: 1 } }] },
      { path: "b", was: false, changes: [{ path: "b", before: null }] },
      { path: "d", was: true, more: true },
    ]);
    expect(await branch.feed.compare({ from, to: { generation: 3, seq: 1 }, paths: ["a"] })).toBeNull();
    expect(await branchOf(freshBucket()).feed.compare({ from, to, paths: ["a"] })).toBeNull();
  });
});

/** The annotations of a branch's commits, the oldest first. */
async function annotationsOf(branch: BranchStub): Promise<(Annotation | undefined)[]> {
  const log = await branch.history.list({ limit: 1000 });
  if (!log.ok) throw new Error(log.reason);
  return log.commits.map(({ annotation }) => annotation).reverse();
}

const SAID: Annotation = { key: "k1", message: "why", meta: { run: "7", "git.sha": "a=b" } };

function putAnnotated(branch: BranchStub, path: string, annotation: Annotation) {
  return branch.files.put({ path, content: inline(path), attributes: {}, annotation });
}

describe("the annotation of a commit", () => {
  test("is kept by each kind of write, whole or in part, and told by the log and of one commit", async () => {
    const branch = await freshBranch();
    await putAnnotated(branch, "a", SAID);
    await putAnnotated(branch, "b", { key: "k2" });
    committed(await branch.files.commit({ operations: [{ delete: "a" }], annotation: { message: "gone" } }));
    const upload = await begin(branch);
    const one = chunked("one", ["b/1"]);
    await branch.multipart.addPart({ upload, number: 1, content: one });
    const annotation = { key: "k1", meta: { of: "parts" } };
    expect(await branch.multipart.complete({ ...completion(upload, { 1: one }), annotation })).toMatchObject({
      ok: true,
    });
    await put(branch, "nothing is said");
    expect(await annotationsOf(branch)).toEqual([
      SAID,
      { key: "k2" },
      { message: "gone" },
      annotation,
      undefined,
    ]);
    const log = await branch.history.list({ limit: 1000 });
    const first = (log.ok && log.commits.at(-1)?.id) || "";
    expect(await branch.history.commit({ commit: first })).toMatchObject({ id: first, annotation: SAID });
  });

  test("is that of its own call, however many wait together and share a transaction", async () => {
    const branch = await freshBranch();
    const annotations = Array.from({ length: 60 }, (_, n) => ({ key: `k${n % 7}`, message: `put ${n}` }));
    const answers = await Promise.all(
      annotations.map((annotation, n) => putAnnotated(branch, `p${n}`, annotation)),
    );
    for (const [n, answer] of answers.entries()) {
      const entry = await branch.history.commit({ commit: committed(answer) ?? "" });
      expect(entry).toMatchObject({ annotation: annotations[n] });
    }
  });

  test("goes with a write that changes nothing, and comes to no other commit", async () => {
    const branch = await freshBranch();
    await putAnnotated(branch, "a", { key: "k1" });
    expect(await putAnnotated(branch, "a", SAID)).toMatchObject({ ok: true, commit: null });
    await putAnnotated(branch, "b", { key: "k2" });
    expect(await annotationsOf(branch)).toEqual([{ key: "k1" }, { key: "k2" }]);
  });

  test("names the key also if the first commit of that key was undone on its way", async () => {
    const branch = await freshBranch();
    const crash = crashAt({ statement: /INSERT INTO commits/, nth: 1 });
    const failing = putAnnotated(branch, "a", SAID).catch(() => "failed");
    await crash.reached();
    expect(await failing).toBe("failed");
    crash.resume();
    committed(await putAnnotated(branch, "a", SAID));
    expect(await annotationsOf(branch)).toEqual([SAID]);
  });

  test("of an open commit is what was said when it was finished, else when it was started", async () => {
    const branch = await freshBranch();
    const started: Annotation = { key: "k1", message: "begun", meta: { at: "start" } };
    const ends: Annotation[] = [
      { key: "k2" },
      { key: "k2", message: "done" },
      { key: "k2", meta: { at: "end" } },
    ];
    for (const [n, annotation] of ends.entries()) {
      const opened = await branch.openCommits.start({ ttlMs: DAY_MS, annotation: started });
      if (!opened.ok) throw new Error(opened.reason);
      const { openCommit } = opened;
      committed(
        await branch.files.put({
          openCommit,
          path: `${n}`,
          content: inline("x"),
          attributes: {},
          annotation: SAID,
        }),
      );
      expect(await branch.openCommits.finish({ openCommit, annotation })).toMatchObject({
        state: "finished",
      });
      // Asked again, it is the commit that it is.
      await branch.openCommits.finish({ openCommit, annotation: SAID });
    }
    expect(await annotationsOf(branch)).toEqual([
      { ...started, key: "k2" },
      { ...started, key: "k2", message: "done" },
      { ...started, key: "k2", meta: { at: "end" } },
    ]);
  });

  test("of a multipart upload is what was said at its completion, else at its beginning", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { annotation: SAID });
    const one = chunked("one", ["b/1"]);
    await branch.multipart.addPart({ upload, number: 1, content: one });
    await branch.multipart.complete({
      ...completion(upload, { 1: one }),
      annotation: { key: "k9", message: "whole" },
    });
    expect(await annotationsOf(branch)).toEqual([{ ...SAID, key: "k9", message: "whole" }]);
  });

  test("is absent from what releases wrote that kept none", async () => {
    const branch = await freshBranch();
    await putAnnotated(branch, "a", SAID);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      const columns = "gen, seq, id, kind, createdAt, births, deaths, origin";
      sql.exec(`CREATE TABLE kept AS SELECT ${columns} FROM commits`);
      sql.exec("DELETE FROM commits");
      sql.exec(`INSERT INTO commits (${columns}) SELECT ${columns} FROM kept`);
    });
    expect(await annotationsOf(branch)).toEqual([undefined]);
  });
});
