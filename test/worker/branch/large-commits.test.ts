import { afterEach, describe, expect, test, vi } from "vitest";
import type { Annotation } from "../../../worker/branch/contract/answers.ts";
import type { VersionMark } from "../../../worker/branch/contract/files.ts";
import { REST, sampled } from "../../support/suite.ts";
import {
  allPaths,
  countOf,
  crashAt,
  expectRefsRight,
  goOn,
  numbered,
  pagesOf,
  putText,
  restarted,
  seed,
  stageAll,
} from "./large-support.ts";
import {
  type BranchStub,
  committed,
  finished,
  freshBranch,
  inline,
  listed,
  put,
  startOpenCommit,
} from "./support.ts";

const START = { generation: 0, seq: 0 };
/** The first statement of each slice that writes puts. */
const WRITE = /SELECT count\(\*\) AS paths/;

afterEach(() => {
  vi.restoreAllMocks();
});

/** A branch with some files, and an open commit of more operations than one commit takes: 10,600 puts and 600 deletions. */
async function prepared(): Promise<{
  branch: BranchStub;
  openCommit: string;
  before: string[];
  after: string[];
}> {
  const branch = await freshBranch();
  await seed(branch);
  const old = numbered("old/", 1200);
  committed(await branch.files.commit({ operations: old.map((path, n) => putText(path, n)) }));
  const [replaced, deleted, stay] = [old.slice(0, 300), old.slice(300, 900), old.slice(900)];
  const added = numbered("new/", 10_000);
  const openCommit = await stageAll(branch, [
    ...added.map((path, n) => putText(path, n)),
    // Every other one is what is there already.
    ...replaced.map((path, n) => putText(path, n + (n % 2))),
    ...stay.map((path, n) => putText(path, n + 900)),
    ...deleted.map((path) => ({ delete: path })),
  ]);
  const seeds = (await allPaths(branch, { prefix: "seed/" })).sort();
  const before = [...old, ...seeds];
  return { branch, openCommit, before, after: [...added, ...replaced, ...stay, ...seeds] };
}

const ANNOTATION: Annotation = { key: "k1", message: "a large one", meta: { run: "7" } };

/** Asks for the commit. A fault stops it on its way; without one it may be made when this returns. */
async function begun(branch: BranchStub, openCommit: string): Promise<void> {
  expect(await branch.openCommits.finish({ openCommit, annotation: ANNOTATION })).toMatchObject({ ok: true });
}

/** All pages at the root: what is pending is passed over, so much of it that pages may be short. */
async function foldedRoot(branch: BranchStub): Promise<unknown[]> {
  const entries: unknown[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page = await branch.files.list({ prefix: "", delimiter: "/", limit: 10, after });
    if (!page.ok) throw new Error(page.reason);
    entries.push(...page.entries);
    after = page.next;
  }
  return entries;
}

async function foldedVersions(branch: BranchStub): Promise<unknown[]> {
  const entries: unknown[] = [];
  for (let after: VersionMark | null = { path: "" }; after !== null; ) {
    const page = await branch.files.versions({ prefix: "", delimiter: "/", limit: 10, after });
    if (!page.ok) throw new Error(page.reason);
    entries.push(...page.entries);
    after = page.next;
  }
  return entries;
}

describe("a large commit", () => {
  test("of 25,000 operations is one commit, with the counts and the feed of one", async () => {
    const branch = await freshBranch();
    await seed(branch);
    const paths = numbered("d/", 24_500);
    const gone = numbered("seed/", 500);
    const operations = [
      ...paths.map((path, n) => putText(path, n)),
      ...gone.map((path) => ({ delete: path })),
    ];
    const openCommit = await stageAll(branch, [...operations, { delete: "seed/0" }]);
    await begun(branch, openCommit);
    const { commit } = await finished(branch, openCommit);
    expect(await branch.lifecycle.status()).toMatchObject({ head: commit });
    expect(await allPaths(branch, { prefix: "d/" })).toEqual(paths);
    const page = await branch.feed.read({ cursor: { generation: 1, seq: 1 }, limit: 1000 });
    expect(page).toMatchObject({ more: false, events: [{ id: commit, seq: 2, next: "d/000999" }] });
    const changed = page.events[0]?.changes.map(({ path }) => path) ?? [];
    for (let after: string | null = "d/000999"; after !== null; ) {
      const rest = await branch.feed.changes({ generation: 1, seq: 2, after, limit: 7000 });
      changed.push(...rest.changes.map(({ path }) => path));
      after = rest.next;
    }
    expect(changed).toEqual([...paths, "seed/0"]);
    expect(await branch.feed.position({ commit: commit ?? "" })).toEqual({ generation: 1, seq: 2 });
    const next = await put(branch, "after");
    expect((await branch.feed.read({ cursor: { generation: 1, seq: 2 }, limit: 5 })).events).toMatchObject([
      { id: next, changes: [{ path: "after" }] },
    ]);
    await expectRefsRight(branch);
  }, 120_000);

  test("is invisible until it is whole, to every kind of read, and then there at once", async () => {
    const { branch, openCommit, before, after } = await prepared();
    const status = await branch.lifecycle.status();
    const head = (status.ok && status.head) || "";
    const versions = await branch.files.versions({ prefix: "old/", limit: 1000 });
    const folded = await foldedRoot(branch);
    const versionsFolded = await foldedVersions(branch);
    const at = { generation: 1, seq: 2 };
    const fingerprint = await branch.feed.fingerprint({ ...at, path: "" });
    const replaced = await branch.files.read({ path: "old/000001" });
    const other = await startOpenCommit(branch);
    const crash = crashAt({ statement: /^\s*INSERT INTO commits/, nth: 1 });
    await begun(branch, openCommit);
    await crash.reached();
    expect(await countOf(branch, "staged")).toBe(0);
    for (const of of [{}, { commit: head }]) expect(await allPaths(branch, of)).toEqual(before);
    expect(await branch.lifecycle.status()).toEqual(status);
    expect(await branch.files.read({ path: "new/000001" })).toEqual({ ok: false, reason: "no-such-file" });
    expect(await branch.files.read({ path: "old/000400" })).toMatchObject({ ok: true });
    for (let times = 0; times < 2; times++) {
      expect(await branch.files.read({ path: "old/000001" })).toEqual(replaced);
    }
    expect(await branch.files.versions({ prefix: "old/", limit: 1000 })).toEqual(versions);
    expect(await foldedRoot(branch)).toEqual(folded);
    expect(await foldedVersions(branch)).toEqual(versionsFolded);
    expect(await branch.feed.fingerprint({ ...at, path: "" })).toEqual(fingerprint);
    expect((await branch.feed.read({ cursor: at, limit: 10 })).events).toEqual([]);
    // Conditions of another open commit are about what everybody sees.
    const put = { content: inline("other"), attributes: {}, openCommit: other };
    const absent = { ...put, condition: { noneMatch: "any" } } as const;
    expect(await branch.files.put({ ...absent, path: "new/000001" })).toMatchObject({ ok: true });
    expect(await branch.files.put({ ...absent, path: "old/000400" })).toMatchObject({
      reason: "condition-failed",
    });
    crash.resume();
    await goOn(branch);
    await finished(branch, openCommit);
    expect(await allPaths(branch)).toEqual(after);
    expect(await allPaths(branch, { commit: head })).toEqual(before);
    expect(await branch.files.read({ path: "old/000001" })).toMatchObject({
      digest: inline("text 2").digest,
    });
    expect(await branch.feed.fingerprint({ ...at, path: "" })).toEqual(fingerprint);
    await expectRefsRight(branch);
  }, 120_000);

  test("lets writers wait, and then through in their order", { ...REST, timeout: 120_000 }, async () => {
    const { branch, openCommit } = await prepared();
    const crash = crashAt({ statement: WRITE, nth: 4 });
    await begun(branch, openCommit);
    await crash.reached();
    const answered = vi.fn();
    const waiting = [
      branch.files.put({ path: "w/put", content: inline("1"), attributes: {} }).finally(answered),
      branch.files.commit({ operations: [putText("w/commit", 1)] }).finally(answered),
      branch.files.put({ path: "w/last", content: inline("2"), attributes: {} }).finally(answered),
    ];
    // Reads and writes into open commits do not wait.
    const other = await branch.openCommits.start({ ttlMs: 100_000 });
    if (!other.ok) throw new Error(other.reason);
    const staged = { openCommit: other.openCommit, path: "s", content: inline("s"), attributes: {} };
    expect(await branch.files.put(staged)).toMatchObject({ ok: true, commit: null });
    expect(await listed(branch, { prefix: "w/" })).toEqual([]);
    expect(await branch.files.list({ openCommit: other.openCommit, prefix: "s", limit: 100 })).toMatchObject({
      entries: [{ path: "s" }, ...Array.from({ length: 20 }, () => ({ kind: "file" }))],
    });
    expect(answered).not.toHaveBeenCalled();
    crash.resume();
    await goOn(branch);
    const answers = await Promise.all(waiting);
    const { commit } = await finished(branch, openCommit);
    const { events } = await branch.feed.read({ cursor: { generation: 1, seq: 2 }, limit: 1 });
    expect(events[0]?.id).toBe(commit);
    const rest = await branch.feed.read({ cursor: { generation: 1, seq: 3 }, limit: 10 });
    expect(rest.events.map(({ id }) => id)).toEqual(answers.map((answer) => committed(answer)));
    expect(await listed(branch, { prefix: "w/" })).toEqual(["w/commit", "w/last", "w/put"]);
  });

  test("that nobody can see being applied takes nothing more, and can't be aborted", async () => {
    const { branch, openCommit } = await prepared();
    const crash = crashAt({ statement: WRITE, nth: 2 });
    await begun(branch, openCommit);
    await crash.reached();
    expect(await branch.openCommits.status({ openCommit })).toMatchObject({
      state: "applying",
      due: null,
      commit: null,
    });
    expect(await branch.openCommits.abort({ openCommit })).toEqual({ ok: false, reason: "applying" });
    expect(await branch.files.read({ openCommit, path: "seed/0" })).toEqual({
      ok: false,
      reason: "no-such-open-commit",
    });
    const late = branch.files.put({ openCommit, path: "late", content: inline("late"), attributes: {} });
    crash.resume();
    await goOn(branch);
    expect(await late).toEqual({ ok: false, reason: "no-such-open-commit" });
    await finished(branch, openCommit);
    expect(await listed(branch, { prefix: "late" })).toEqual([]);
  }, 120_000);

  test("that changes nothing makes no commit", { ...REST, timeout: 120_000 }, async () => {
    const branch = await freshBranch();
    await seed(branch);
    const paths = numbered("d/", 10_001);
    for (const page of pagesOf(paths.map((path, n) => putText(path, n)))) {
      committed(await branch.files.commit({ operations: page }));
    }
    const commits = await countOf(branch, "commits");
    const openCommit = await stageAll(
      branch,
      paths.map((path, n) => putText(path, n)),
    );
    await begun(branch, openCommit);
    expect(await finished(branch, openCommit)).toMatchObject({ commit: null });
    expect(await countOf(branch, "commits")).toBe(commits);
    await expectRefsRight(branch);
  });

  test("is waited for by a call that deletes the branch", { ...REST, timeout: 120_000 }, async () => {
    const { branch, openCommit } = await prepared();
    const finishing = branch.openCommits.finish({ openCommit });
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
    await finishing;
    const { events } = await branch.feed.read({ cursor: { generation: 1, seq: 2 }, limit: 1 });
    expect(events).toMatchObject([{ kind: "commit", seq: 3 }]);
    const rest = await branch.feed.read({ cursor: { generation: 1, seq: 3 }, limit: 1 });
    expect(rest.events).toMatchObject([{ kind: "deletion", seq: 4 }]);
  });
});

describe("a large commit with a conflict", () => {
  const others = numbered("new/", 10_001).map((path, n) => putText(path, n));

  test.each<[string, { old?: string[]; put: string[]; delete?: string[]; path: string; other: string }]>([
    ["of two of its files", { put: ["a", "a/b"], path: "a/b", other: "a" }],
    ["of a file under one that is there", { old: ["a"], put: ["a/b/c"], path: "a/b/c", other: "a" }],
    ["of a file over a directory that is there", { old: ["a/b"], put: ["a"], path: "a", other: "a/b" }],
    ["of an empty directory and a file", { old: ["a"], put: ["a/"], path: "a/", other: "a" }],
    [
      "of a file over a directory of which something stays",
      { old: ["a/b", "a/c"], put: ["a"], delete: ["a/b"], path: "a", other: "a/c" },
    ],
  ])(
    "%s is refused once, stays open, and can be mended",
    async (_, { old = [], put: puts, ...rest }) => {
      const branch = await freshBranch();
      await seed(branch);
      if (old.length > 0) {
        committed(await branch.files.commit({ operations: old.map((path, n) => putText(path, n)) }));
      }
      const before = await countOf(branch, "commits");
      const openCommit = await stageAll(branch, [
        ...others,
        ...puts.map((path, n): Parameters<typeof stageAll>[1][number] =>
          path.endsWith("/") ? { put: path, digest: "0".repeat(64), size: 0 } : putText(path, n),
        ),
        ...(rest.delete ?? []).map((path) => ({ delete: path })),
      ]);
      const conflict = { ok: false, reason: "path-conflict", path: rest.path, other: rest.other };
      await expect
        .poll(() => branch.openCommits.finish({ openCommit }), { timeout: 60_000 })
        .toEqual(conflict);
      expect(await branch.openCommits.status({ openCommit })).toMatchObject({
        state: "open",
        due: expect.any(Number),
      });
      expect(await countOf(branch, "commits")).toBe(before);
      committed(
        await branch.files.commit({
          openCommit,
          operations: [...puts, ...old].map((path) => ({ delete: path })),
        }),
      );
      await begun(branch, openCommit);
      await finished(branch, openCommit);
      expect(await countOf(branch, "commits")).toBe(before + 1);
      expect(await listed(branch, { prefix: "a" })).toEqual([]);
    },
    120_000,
  );

  test("is no conflict if everything below a file that is put goes, however much that is", {
    ...REST,
    timeout: 120_000,
  }, async () => {
    const branch = await freshBranch();
    await seed(branch);
    const below = numbered("dir/", 2500);
    committed(await branch.files.commit({ operations: below.map((path, n) => putText(path, n)) }));
    const openCommit = await stageAll(branch, [
      ...others.slice(0, 8000),
      ...below.map((path) => ({ delete: path })),
      putText("dir", 1),
    ]);
    await begun(branch, openCommit);
    await finished(branch, openCommit);
    expect(await listed(branch, { prefix: "dir" })).toEqual(["dir"]);
    await expectRefsRight(branch);
  });
});

describe("a crash", () => {
  const CRASHES = [
    ["before the first path was checked", { statement: /below\.path >= staged\.path/, nth: 1 }],
    ["in the check", { statement: /below\.path >= staged\.path/, nth: 7 }],
    ["when the check was over", { statement: /UPDATE applying SET seq/, nth: 1 }],
    ["before the first slice", { statement: WRITE, nth: 1 }],
    ["between slices of puts", { statement: WRITE, nth: 5 }],
    ["in the middle of a slice of puts", { statement: /INSERT INTO files/, nth: 3 }],
    ["at the end of a slice of puts", { statement: /UPDATE applying SET births/, nth: 6 }],
    ["in the slice of deletions", { statement: /staged\.gone = 1/, nth: 1 }],
    ["when all was written", { statement: /INSERT INTO commits/, nth: 1 }],
    ["when HEAD was to move to the commit", { statement: /DELETE FROM applying/, nth: 1 }],
  ] as const;
  for (const [[moment, point], options] of sampled(CRASHES, { every: 8 })) {
    test(`${moment} is rolled forward from, to one commit`, { ...options, timeout: 120_000 }, async () => {
      const { branch, openCommit, after } = await prepared();
      const commits = await countOf(branch, "commits");
      const crash = crashAt(point);
      await begun(branch, openCommit);
      await crash.reached();
      expect(await countOf(branch, "commits")).toBe(commits);
      await restarted(branch);
      crash.resume();
      const { commit } = await finished(branch, openCommit);
      expect(await branch.lifecycle.status()).toMatchObject({ head: commit });
      // Who asked again said nothing: the annotation of the call that began it was written down with it.
      expect(await branch.history.commit({ commit: commit ?? "" })).toMatchObject({ annotation: ANNOTATION });
      expect(await allPaths(branch)).toEqual(after);
      expect(await countOf(branch, "commits")).toBe(commits + 1);
      expect(await countOf(branch, "applying")).toBe(0);
      await expectRefsRight(branch);
      const { events } = await branch.feed.read({ cursor: START, limit: 10_000 });
      expect(events.map(({ seq }) => seq)).toEqual([1, 2]);
    });
  }

  test("again and again, wherever, does not keep it from its one commit", {
    ...REST,
    timeout: 120_000,
  }, async () => {
    const { branch, openCommit, after } = await prepared();
    await begun(branch, openCommit);
    for (let times = 0; times < 8; times++) {
      await restarted(branch);
      await branch.openCommits.status({ openCommit });
    }
    await finished(branch, openCommit);
    expect(await allPaths(branch)).toEqual(after);
    expect(await countOf(branch, "commits")).toBe(3);
    await expectRefsRight(branch);
  });

  test("leaves it to the alarm if nobody asks", { ...REST, timeout: 120_000 }, async () => {
    const { branch, openCommit, after } = await prepared();
    const crash = crashAt({ statement: WRITE, nth: 3 });
    await begun(branch, openCommit);
    await crash.reached();
    crash.resume();
    await goOn(branch);
    await expect.poll(() => countOf(branch, "applying"), { timeout: 60_000 }).toBe(0);
    expect(await allPaths(branch)).toEqual(after);
  });
});
