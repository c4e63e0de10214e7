import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { contentName, EMPTY_DIGEST } from "../../../protocol/content.ts";
import { ContentStore } from "../../../worker/branch/contents/content-store.ts";
import { PendingDeletionStore } from "../../../worker/branch/contents/pending-deletion-store.ts";
import type { AnswerOf } from "../../../worker/branch/contract/answers.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { ErasureCalls, VersionName } from "../../../worker/branch/contract/erasures.ts";
import type { VersionEntry } from "../../../worker/branch/contract/files.ts";
import type { Cursor } from "../../../worker/branch/contract/pipelines.ts";
import { blockedAtHead, withoutConflicts } from "../../../worker/branch/erasures/in-the-way.ts";
import { FileStore } from "../../../worker/branch/tree/file-store.ts";
import { ReadCache } from "../../../worker/branch/tree/read-cache.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { transaction } from "../objects/transaction.ts";
import { atRest } from "./fork-support.ts";
import {
  crashAt,
  expectRefsRight,
  goOn,
  numbered,
  putText,
  restarted,
  seed,
  stageAll,
} from "./large-support.ts";
import { dayAfterTags, givenBack, rowsLeft } from "./retention-support.ts";
import {
  type BranchStub,
  chunked,
  commitFiles,
  committed,
  finished,
  freshBranch,
  inline,
  inObject,
  ledgerOf,
  listed,
  put,
  randomNumbers,
  stage,
  startOpenCommit,
} from "./support.ts";

type Erased = Extract<AnswerOf<ErasureCalls["erase"]>, { ok: true }>;

async function erase(branch: BranchStub, path: string, ...ids: readonly (string | null)[]): Promise<Erased> {
  const versions = ids.map((version) => ({ path, version: version ?? "" }));
  const answer = await branch.erasures.erase({ versions });
  if (!answer.ok) throw new Error(JSON.stringify(answer));
  return answer;
}

async function remove(branch: BranchStub, path: string): Promise<string> {
  return committed(await branch.files.commit({ operations: [{ delete: path }] })) ?? "";
}

/** The versions of all paths, the newest first; a deletion with a minus, the current one of a path with a star. */
async function versions(branch: BranchStub, limit = 1000): Promise<string[]> {
  const found: VersionEntry[] = [];
  let after: { path: string; version?: string } | null | undefined;
  while (after !== null) {
    const page = await branch.files.versions({ prefix: "", limit, ...(after && { after }) });
    if (!page.ok) throw new Error(page.reason);
    found.push(...page.entries);
    after = page.next;
  }
  return found.map((entry) => {
    if (entry.kind === "prefix") return `[${entry.path}]`;
    return `${entry.kind === "deletion" ? "-" : ""}${entry.path}@${entry.version}${entry.latest ? "*" : ""}`;
  });
}

async function textOf(branch: BranchStub, path: string, commit?: string | null): Promise<string> {
  const read = await branch.files.read({ path, ...(commit && { commit }) });
  if (!read.ok) return read.reason;
  return read.body.kind === "inline" ? new TextDecoder().decode(read.body.bytes) : read.body.kind;
}

function rowsOfFiles(branch: BranchStub): Promise<number> {
  return runInDurableObject(branch, (_, { storage: { sql } }) =>
    Number(sql.exec("SELECT count(*) AS n FROM files").one().n),
  );
}

describe("erasing a version", () => {
  test("that is the newest makes the one before current again, under its own id, in a commit", async () => {
    const branch = await freshBranch();
    const [one, two] = [await put(branch, "a", "1"), await put(branch, "a", "2")];
    const { commit, erased } = await erase(branch, "a", two);
    expect(erased).toMatchObject([{ kind: "version", path: "a", version: two, stays: false }]);
    expect(commit).not.toBeNull();
    expect(await branch.lifecycle.status()).toMatchObject({ head: commit });
    expect(await branch.files.read({ path: "a" })).toMatchObject({ commit: one, size: 1 });
    expect(await textOf(branch, "a")).toBe("1");
    expect(await versions(branch)).toEqual([`a@${one}*`]);
    expect(await textOf(branch, "a", two)).toBe("no-such-version");
    expect(await textOf(branch, "a", one)).toBe("1");
    expect(await listed(branch, { commit: two ?? "" })).toEqual([]);
    await expectRefsRight(branch);
  });

  test("that is not the newest makes no commit, and its commit has nothing there", async () => {
    const branch = await freshBranch();
    const ids = [await put(branch, "a", "1"), await put(branch, "a", "2"), await put(branch, "a", "3")];
    expect(await erase(branch, "a", ids[1] ?? null)).toMatchObject({ commit: null });
    expect(await versions(branch)).toEqual([`a@${ids[2]}*`, `a@${ids[0]}`]);
    expect(await textOf(branch, "a", ids[1])).toBe("no-such-version");
    expect(await textOf(branch, "a")).toBe("3");
    const bucket = await branch.files.read({ path: "a", openCommit: ids[1] ?? "" });
    expect(bucket).toEqual({ ok: false, reason: "no-such-file" });
  });

  test("that is a deletion brings back what was there before; an older deletion only goes", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a", "1");
    const first = await remove(branch, "a");
    const two = await put(branch, "a", "2");
    const last = await remove(branch, "a");
    expect(await erase(branch, "a", last)).toMatchObject({
      erased: [{ kind: "deletion", version: last }],
      commit: expect.any(String),
    });
    expect(await versions(branch)).toEqual([`a@${two}*`, `-a@${first}`, `a@${one}`]);
    expect(await erase(branch, "a", first)).toMatchObject({ commit: null });
    expect(await versions(branch)).toEqual([`a@${two}*`, `a@${one}`]);
    expect(await textOf(branch, "a")).toBe("2");
  });

  test("leaves a deletion that came after it, until that is erased too", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a", "1");
    const gone = await remove(branch, "a");
    expect(await erase(branch, "a", one)).toMatchObject({ commit: null });
    expect(await versions(branch)).toEqual([`-a@${gone}*`]);
    await erase(branch, "a", gone);
    expect(await versions(branch)).toEqual([]);
    expect(await rowsOfFiles(branch)).toBe(0);
  });

  test("takes a deletion that came after it along if all of its path is to go, but nothing that was written since", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a", "1");
    const gone = await remove(branch, "a");
    const asked = [{ path: "a", version: one ?? "" }];
    expect(await branch.erasures.erase({ versions: asked, withDeletions: true })).toMatchObject({
      ok: true,
      commit: null,
      erased: [
        { kind: "version", path: "a", version: one },
        { kind: "deletion", path: "a", version: gone },
      ],
    });
    expect(await versions(branch)).toEqual([]);
    expect(await rowsOfFiles(branch)).toBe(0);
    const two = await put(branch, "a", "2");
    const three = await put(branch, "a", "3");
    const last = await remove(branch, "a");
    await branch.erasures.erase({ versions: [{ path: "a", version: two ?? "" }], withDeletions: true });
    expect(await versions(branch)).toEqual([`-a@${last}*`, `a@${three}`]);
  });

  test("is nothing if another commit's id is named, or the same is asked twice", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a", "1");
    const other = await put(branch, "b", "1");
    const none = { ok: true, commit: null, erased: [] };
    expect(await erase(branch, "a", other)).toMatchObject(none);
    expect(await erase(branch, "a", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "null")).toMatchObject(none);
    expect(await textOf(branch, "a")).toBe("1");
    await erase(branch, "a", one);
    // What was just read is not remembered.
    expect(await textOf(branch, "a")).toBe("no-such-file");
    expect(await erase(branch, "a", one)).toMatchObject(none);
    expect(await erase(branch, "b", one)).toMatchObject(none);
    expect(await textOf(branch, "b")).toBe("1");
  });

  test("takes both lives of a version that was current again", async () => {
    const branch = await freshBranch();
    const [one, two] = [await put(branch, "a", "1"), await put(branch, "a", "2")];
    await erase(branch, "a", two);
    const three = await put(branch, "a", "3");
    expect(await versions(branch, 1)).toEqual([`a@${three}*`, `a@${one}`]);
    await erase(branch, "a", one);
    expect(await versions(branch)).toEqual([`a@${three}*`]);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[1, 1]] });
    await erase(branch, "a", three);
    expect(await listed(branch)).toEqual([]);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [] });
  });

  test("keeps equal bytes of another path, another version and an open commit, and says so", async () => {
    const branch = await freshBranch();
    const first = await put(branch, "a", "same");
    await put(branch, "a", "other");
    const again = await put(branch, "a", "same");
    await put(branch, "b", "same");
    const openCommit = await startOpenCommit(branch);
    await branch.files.put({ openCommit, path: "c", content: inline("same"), attributes: {} });
    const { erased } = await erase(branch, "a", first);
    expect(erased).toMatchObject([{ stays: true }]);
    const contents = [inline("same")].map(({ digest, size }) => ({ digest, size }));
    expect(await branch.erasures.holders({ contents })).toMatchObject({
      ok: true,
      next: null,
      holders: [
        { kind: "version", path: "a", version: again },
        { kind: "version", path: "b" },
        { kind: "open-commit", openCommit, path: "c" },
      ],
    });
    await erase(branch, "a", again);
    expect(await textOf(branch, "b")).toBe("same");
    expect(await finished(branch, openCommit)).toMatchObject({ state: "finished" });
    expect(await textOf(branch, "c")).toBe("same");
    await expectRefsRight(branch);
  });

  test("keeps equal bytes that an upload holds, and says so once, however often they came", async () => {
    const branch = await freshBranch();
    const id = await put(branch, "a", "same");
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    const same = inline("same");
    for (let n = 0; n < 300; n++)
      await branch.uploads.add({ upload, contents: [inline(`first ${n}`), same, inline(`last ${n}`)] });
    await branch.uploads.add({ upload, contents: [same] });
    const { erased } = await erase(branch, "a", id);
    expect(erased).toMatchObject([{ stays: true }]);
    const { digest, size } = same;
    expect(await branch.erasures.holders({ contents: [{ digest, size }] })).toEqual({
      ok: true,
      next: null,
      holders: [{ kind: "upload", upload, path: null, digest, size }],
    });
    await expectRefsRight(branch);
    await branch.uploads.abort({ upload });
    await atRest(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [], holds: 0 });
  });

  test("condemns the blobs of a file at once, and they are deleted after the grace of readers", async () => {
    const branch = await freshBranch();
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const content = chunked("large", ["b/1", "b/2"]);
    const id = committed(
      await branch.files.put({ path: "a", content, attributes: {}, upload: opened.upload }),
    );
    await erase(branch, "a", id);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [], blobs: [], condemned: ["b/1", "b/2"] });
    await atRest(branch);
    expect(await ledgerOf(branch)).toMatchObject({ condemned: [] });
  });

  test("of many paths is one commit, in one step", async () => {
    const branch = await freshBranch();
    const [a1, a2] = [await put(branch, "a", "1"), await put(branch, "a", "2")];
    const b = await put(branch, "b");
    const gone = await remove(branch, "c")
      .then(() => put(branch, "c"))
      .then(() => remove(branch, "c"));
    const asked = [
      { path: "a", version: a2 ?? "" },
      { path: "b", version: b ?? "" },
      { path: "c", version: gone },
    ];
    const answer = await branch.erasures.erase({ versions: asked, deletions: [{ delete: "a" }] });
    expect(answer).toMatchObject({ ok: true, erased: [{}, {}, {}], deleted: { ok: true } });
    expect(await listed(branch)).toEqual(["c"]);
    expect(await versions(branch)).toEqual([
      expect.stringMatching(/^-a@.*\*$/),
      `a@${a1}`,
      expect.stringMatching(/^c@.*\*$/),
    ]);
  });

  test("brings nothing back where a folder has grown meanwhile; the version stays in the history", async () => {
    const branch = await freshBranch();
    const file = await put(branch, "a", "1");
    const gone = await remove(branch, "a");
    await put(branch, "a/b");
    expect(await erase(branch, "a", gone)).toMatchObject({ commit: null });
    expect(await listed(branch)).toEqual(["a/b"]);
    expect((await versions(branch))[0]).toBe(`a@${file}`);
    expect(await textOf(branch, "a", file)).toBe("1");
  });

  test("is refused to all but the one for whom the branch is protected", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a");
    const asked = { versions: [{ path: "a", version: one ?? "" }], annotation: { key: "mine" } };
    await branch.settings.change({ writer: { key: "theirs" } });
    expect(await branch.erasures.erase(asked)).toMatchObject({ ok: false, reason: "protected" });
    expect(await textOf(branch, "a")).toBe("a");
    await branch.settings.change({ writer: null });
    expect(await branch.erasures.erase(asked)).toMatchObject({ ok: true, erased: [{}] });
  });

  test("is done in the output branch of a pipeline, though clients don't write there; what is deleted beside it is refused", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a");
    await put(branch, "b");
    expect(await branch.output.claim({ uid: "u", pipeline: "none" })).toMatchObject({
      reason: "already-exists",
    });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE writer SET uid = 'u', pipeline = 'none', epoch = 1");
    });
    await restarted(branch);
    const versions = [{ path: "a", version: one ?? "" }];
    expect(await branch.erasures.erase({ versions, deletions: [{ delete: "b" }] })).toMatchObject({
      ok: true,
      erased: [{}],
      deleted: { ok: false, reason: "pipeline-output" },
    });
    expect(await listed(branch)).toEqual(["b"]);
  });

  test("waits until a large commit is made", async () => {
    const branch = await freshBranch();
    await seed(branch);
    const one = await put(branch, "a", "text 1");
    const openCommit = await stageAll(branch, numbered("many/", 10_001).map(putText));
    const crash = crashAt({ statement: /INSERT INTO files[^;]*FROM staged/, nth: 1 });
    expect(await branch.openCommits.finish({ openCommit })).toMatchObject({ state: "applying" });
    await crash.reached();
    const erasing = erase(branch, "a", one);
    expect(await textOf(branch, "a")).toBe("text 1");
    crash.resume();
    await goOn(branch);
    expect(await erasing).toMatchObject({ erased: [{}] });
    expect(await branch.openCommits.status({ openCommit })).toMatchObject({ state: "finished" });
    expect(await textOf(branch, "a")).toBe("no-such-file");
  });

  test("changes what a condition of an open commit was judged on", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a", "1");
    const openCommit = await startOpenCommit(branch);
    const condition = { match: "any" } as const;
    await branch.files.put({ openCommit, path: "a", content: inline("2"), attributes: {}, condition });
    await stage(branch, openCommit, { puts: ["b"] });
    await erase(branch, "a", one);
    expect(await branch.openCommits.finish({ openCommit })).toMatchObject({
      reason: "conditions-changed",
      changes: [{ path: "a", change: "deleted" }],
    });
  });

  test("and a history that is given back leave no deletion that was none, and no commit but those of versions", async () => {
    const branch = await freshBranch();
    const ids: (string | null)[] = [];
    for (const text of ["1", "2", "3", "4", "5"]) ids.push(await put(branch, "a", text));
    await branch.tags.create({ name: "v1", commit: ids[0] ?? "", force: false });
    await erase(branch, "a", ids[3] ?? null);
    expect(await branch.settings.change({ keep: { commits: 1 } })).toEqual({ ok: true });
    await givenBack(branch);
    expect(await versions(branch)).toEqual([`a@${ids[4]}*`, `a@${ids[0]}`]);
    expect(await textOf(branch, "a", ids[0])).toBe("1");
    await branch.tags.delete({ name: "v1" });
    // The commit is kept for a day, and what is erased of it goes at once.
    await erase(branch, "a", ids[0] ?? null);
    await givenBack(branch);
    expect(await versions(branch)).toEqual([`a@${ids[4]}*`]);
    expect(await rowsLeft(branch)).toMatchObject({ files: 1, contents: 1, held: 1 });
    await dayAfterTags(branch);
    await givenBack(branch);
    await expect.poll(() => rowsLeft(branch)).toMatchObject({ files: 1, contents: 1, held: 0 });
  });

  test("leaves no row behind once its readers have read on", async () => {
    const branch = await freshBranch();
    const one = await put(branch, "a", "1");
    await put(branch, "b");
    await branch.feed.subscribe({ uid: "u", pipeline: "none", starts: [] });
    await erase(branch, "a", one);
    // Its birth has been read, and that it is gone has not.
    expect(await rowsOfFiles(branch)).toBe(2);
    await branch.feed.setMark({ uid: "u", generation: 1, seq: 3, job: null, starts: [] });
    expect(await rowsOfFiles(branch)).toBe(1);
    await branch.feed.unsubscribe({ uid: "u" });
  });

  test("leaves none of very many rows behind when its last reader goes", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "none" });
    const paths = Array.from({ length: 600 }, (_, n) => `${n}`);
    const puts = Object.fromEntries(paths.map((path) => [path, "1"]));
    const commits = [await commitFiles(branch, { puts }), await commitFiles(branch, { deletes: paths })];
    const versions = commits.flatMap((commit) =>
      paths.map((path) => ({ path, version: committed(commit) ?? "" })),
    );
    expect(await branch.erasures.erase({ versions })).toMatchObject({ ok: true });
    const news = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        Number(sql.exec("SELECT count(*) AS n FROM files WHERE version = 0").one().n),
      );
    expect(await news()).toBe(1200);
    await branch.feed.unsubscribe({ uid: "u" });
    await atRest(branch);
    expect(await news()).toBe(0);
  });

  test("is told to those that read the branch and to the one that writes to it, and forgotten when all have heard", async () => {
    const branch = await freshBranch();
    const ids = [await put(branch, "a"), await put(branch, "b"), await put(branch, "c")];
    const told = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        sql
          .exec("SELECT path FROM erasures ORDER BY number")
          .toArray()
          .map(({ path }) => path),
      );
    await erase(branch, "a", ids[0] ?? null);
    expect(await told()).toEqual([]);
    await branch.feed.subscribe({ uid: "u", pipeline: "none" });
    await branch.feed.subscribe({ uid: "v", pipeline: "none" });
    await erase(branch, "b", ids[1] ?? null);
    for (const uid of ["u", "v"]) {
      expect(await branch.erasures.list({ uid, after: 0 })).toMatchObject({
        erasures: [{ path: "b" }],
        upTo: 1,
      });
      expect(await told()).toEqual(["b"]);
    }
    expect(await branch.erasures.list({ uid: "u", after: 1 })).toEqual({ erasures: [], upTo: 1 });
    expect(await told()).toEqual(["b"]);
    await branch.erasures.list({ uid: "v", after: 1 });
    expect(await told()).toEqual([]);
    // Who comes later has heard of it, although nobody tells.
    await branch.feed.subscribe({ uid: "w", pipeline: "none" });
    expect(await branch.erasures.list({ uid: "w", after: 0 })).toEqual({ erasures: [], upTo: 1 });
    for (const uid of ["u", "v", "w"]) await branch.feed.unsubscribe({ uid });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE writer SET uid = 'u', pipeline = 'none', epoch = 1");
    });
    await restarted(branch);
    await erase(branch, "c", ids[2] ?? null);
    expect(await told()).toEqual(["c"]);
    await branch.output.release({ uid: "u", destroy: false });
    expect(await told()).toEqual([]);
  });

  test("brings a version back no older than it was to lifecycle rules", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE files SET renewed = 7");
    });
    await erase(branch, "a", await put(branch, "a", "2"));
    const row = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql.exec("SELECT renewed FROM files WHERE died IS NULL").one(),
    );
    expect(row).toEqual({ renewed: 7 });
  });

  test("of which a statement fails changes nothing, and it can be asked again", async () => {
    const branch = await freshBranch();
    await commitFiles(branch, { puts: { a: "1", b: "1" } });
    const two = await put(branch, "a", "2");
    const before = [await versions(branch), await ledgerOf(branch)];
    for (let nth = 1; ; nth++) {
      const crash = crashAt({ statement: /^\s*(UPDATE|INSERT|DELETE)/, nth });
      const done = await branch.erasures
        .erase({ versions: [{ path: "a", version: two ?? "" }] })
        .catch(() => undefined);
      crash.resume();
      if (done?.ok) break;
      await restarted(branch);
      expect([await versions(branch), await ledgerOf(branch)]).toEqual(before);
      expect(await textOf(branch, "a")).toBe("2");
    }
    expect(await textOf(branch, "a")).toBe("1");
    await expectRefsRight(branch);
  });
});

interface Event {
  readonly id: string;
  /** Null: a deletion. */
  readonly text: string | null;
  /** Of a deletion: the version that was current. */
  readonly of?: string;
}

/** What a branch should be: the events of each path, and what each commit had. */
class Model {
  readonly events = new Map<string, Event[]>();
  readonly head = new Map<string, Event>();
  readonly commits = new Map<string, Map<string, Event>>();

  write(commit: string, path: string, text: string | null): void {
    const current = this.head.get(path);
    const event = { id: commit, text, ...(text === null && current && { of: current.id }) };
    this.events.set(path, [...(this.events.get(path) ?? []), event]);
    if (text === null) this.head.delete(path);
    else this.head.set(path, event);
    this.commits.set(commit, new Map(this.head));
  }

  erase(asked: readonly { path: string; version: string }[]): void {
    for (const { path, version } of asked) {
      const events = this.events.get(path) ?? [];
      const left = events.filter(({ id }) => id !== version);
      const wasNewest = events.at(-1)?.id === version;
      this.events.set(path, left);
      for (const tree of this.commits.values()) if (tree.get(path)?.id === version) tree.delete(path);
      if (!wasNewest) continue;
      const newest = left.at(-1);
      if (newest && newest.text !== null) this.head.set(path, newest);
      else this.head.delete(path);
    }
  }

  /** The deletions of some versions. */
  deletionsOf(asked: readonly { path: string; version: string }[]): { path: string; version: string }[] {
    return asked.flatMap(({ path, version }) =>
      (this.events.get(path) ?? []).flatMap(({ id, of }) => (of === version ? [{ path, version: id }] : [])),
    );
  }

  isDeletion(path: string, commit: string): boolean {
    return (this.events.get(path) ?? []).some(({ id, text }) => id === commit && text === null);
  }

  versions(): string[] {
    return [...this.events]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([path, events]) =>
        events
          .toReversed()
          .map(({ id, text }, index) => `${text === null ? "-" : ""}${path}@${id}${index === 0 ? "*" : ""}`),
      );
  }
}

/** Somebody who follows the feed and keeps what it tells. */
class Reader {
  readonly seen = new Map<string, string>();
  readonly #branch: BranchStub;
  #at: Cursor;

  constructor(branch: BranchStub, at: Cursor) {
    this.#branch = branch;
    this.#at = at;
  }

  async read(): Promise<void> {
    for (;;) {
      const { events } = await this.#branch.feed.read({ cursor: this.#at, limit: 3 });
      for (const { generation, seq, changes } of events) {
        this.#at = { generation, seq };
        for (const { path, now } of changes) {
          if (now) this.seen.set(path, `${now.digest}-${now.size}`);
          else this.seen.delete(path);
        }
      }
      if (events.length === 0) return;
    }
  }
}

const PATHS = ["a", 'b"\\u00e9\\é😀', "d/1", "d/2"];
const TEXTS = ["1", "2", "33"];

/** A branch and its model, to which the same happens. */
class Life {
  readonly branch: BranchStub;
  readonly model = new Model();
  readonly random: () => number;

  constructor(branch: BranchStub, random: () => number) {
    this.branch = branch;
    this.random = random;
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)] as T;
  }

  async write(): Promise<void> {
    const [path, text] = [this.pick(PATHS), this.pick(TEXTS)];
    const id = await put(this.branch, path, text);
    if (id) this.model.write(id, path, text);
  }

  async delete(): Promise<void> {
    const path = this.pick(PATHS);
    const id = await remove(this.branch, path);
    if (id) this.model.write(id, path, null);
  }

  /** All versions that there are. */
  all(): { path: string; version: string }[] {
    return [...this.model.events].flatMap(([path, events]) =>
      events.map(({ id }) => ({ path, version: id })),
    );
  }

  async erase(): Promise<void> {
    const all = this.all();
    if (all.length === 0) return;
    const asked = Array.from({ length: 1 + Math.floor(this.random() * 3) }, () => this.pick(all));
    const withDeletions = this.random() < 0.5;
    const answer = await this.branch.erasures.erase({ versions: asked, withDeletions });
    if (!answer.ok) throw new Error(answer.reason);
    this.model.erase(withDeletions ? [...asked, ...this.model.deletionsOf(asked)] : asked);
    if (answer.commit) this.model.commits.set(answer.commit, new Map(this.model.head));
  }

  /** A page of versions of any size, and what some commit has. */
  async isRight(): Promise<void> {
    const { branch, model } = this;
    expect(await versions(branch, 1 + Math.floor(this.random() * 4))).toEqual(model.versions());
    const [commit, tree] = this.pick([...model.commits, ["", model.head] as const]);
    for (const path of PATHS) {
      const there = tree.get(path)?.text;
      const is = await textOf(branch, path, commit);
      if (there !== undefined) expect(is).toBe(there);
      else if (model.isDeletion(path, commit)) expect(is).toBe("is-deletion");
      else expect(is).toMatch(/^no-such-(file|version)$/);
    }
  }
}

/** Paths and the versions to erase of them: all kinds that there are, so many of each. */
async function allKinds(branch: BranchStub, count: number): Promise<{ path: string; version: string }[]> {
  const paths = (folder: string) => Array.from({ length: count }, (_, n) => `${folder}/${n}`);
  const write = async (folder: string, text: string) => {
    const puts = Object.fromEntries(paths(folder).map((path) => [path, `${text} of ${path}`]));
    return committed(await commitFiles(branch, { puts })) ?? "";
  };
  const removeAll = async (folder: string) =>
    committed(await commitFiles(branch, { deletes: paths(folder) })) ?? "";
  const named = (folder: string, version: string) => paths(folder).map((path) => ({ path, version }));
  await write("overwritten", "1");
  const overwritten = named("overwritten", await write("overwritten", "2"));
  const written = named("written", await write("written", "1"));
  await write("deleted", "1");
  const deleted = named("deleted", await removeAll("deleted"));
  const dead = named("dead", await write("dead", "1"));
  await removeAll("dead");
  await write("again", "1");
  await branch.erasures.erase({ versions: named("again", await write("again", "2")) });
  const kept = (await branch.files.read({ path: "again/0" })) as { commit: string };
  const again = named("again", kept.commit);
  return [...overwritten, ...written, ...deleted, ...dead, ...again];
}

/** What the database does for a call. */
function costOf(branch: BranchStub, call: (object: BranchApi) => Promise<unknown>) {
  return inObject(branch, async (object) => {
    const statements = vi.spyOn(Sql.prototype, "execute");
    try {
      await call(object);
      const cursors = statements.mock.results.map(({ value }) => value as SqlStorageCursor<never>);
      const sum = (of: "rowsRead" | "rowsWritten") => cursors.reduce((rows, cursor) => rows + cursor[of], 0);
      return { statements: cursors.length, read: sum("rowsRead"), written: sum("rowsWritten") };
    } finally {
      statements.mockRestore();
    }
  });
}

describe("erasing many versions in one request", () => {
  test("takes no more statements than erasing a few, and rows as there are versions", async () => {
    const costs = [];
    // No more than the step looks up itself: what slices before it read is beside its turn.
    for (const count of [20, 40]) {
      const branch = await freshBranch();
      await branch.feed.subscribe({ uid: "u", pipeline: "none" });
      const versions = await allKinds(branch, count);
      const cost = await costOf(branch, (object) => object.erasures.erase({ versions }));
      costs.push({ ...cost, versions: versions.length });
      await branch.feed.unsubscribe({ uid: "u" });
    }
    const [few = { statements: 0, read: 0, written: 0, versions: 0 }, many = few] = costs;
    expect(many.statements).toBe(few.statements);
    expect(many.statements).toBeLessThan(50);
    const more = many.versions - few.versions;
    expect((many.read - few.read) / more).toBeLessThan(45);
    expect((many.written - few.written) / more).toBeLessThan(15);
  });

  test("reads and writes no more if the same commits have many other files", async () => {
    const costs = [];
    for (const count of [10, 400]) {
      const branch = await freshBranch();
      const versions = await allKinds(branch, count);
      await atRest(branch);
      await branch.feed.subscribe({ uid: "u", pipeline: "none" });
      const some = versions.filter(({ path }) => Number(path.slice(path.indexOf("/") + 1)) < 10);
      costs.push(await costOf(branch, (object) => object.erasures.erase({ versions: some })));
      await branch.feed.unsubscribe({ uid: "u" });
    }
    const [few = { read: 0, written: 0 }, many = few] = costs;
    expect(many.read).toBeLessThan(few.read * 1.1);
    expect(many.written).toBeLessThan(few.written * 1.1);
  });

  test("takes whatever name a path has", async () => {
    const branch = await freshBranch();
    const paths = ['"a\\b"', "7", "__proto__", "\u00e9\u{1f600}", "a'b/c\\"];
    const write = async (text: string) => {
      const puts = Object.fromEntries(paths.map((path) => [path, `${text} of ${path}`]));
      return committed(await commitFiles(branch, { puts })) ?? "";
    };
    const [one, two] = [await write("1"), await write("2")];
    const named = (version: string) => paths.map((path) => ({ path, version }));
    expect(await branch.erasures.erase({ versions: named(two) })).toMatchObject({ ok: true });
    expect(await listed(branch)).toHaveLength(paths.length);
    for (const path of paths) expect(await textOf(branch, path)).toBe(`1 of ${path}`);
    expect(await branch.erasures.erase({ versions: named(one) })).toMatchObject({ ok: true });
    expect(await versions(branch)).toEqual([]);
    expect(await rowsOfFiles(branch)).toBe(0);
    await expectRefsRight(branch);
  });

  test("does with each what it would by itself, whatever else is asked", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "none" });
    const [a1, a2, a3] = [
      await put(branch, "a", "1"),
      await put(branch, "a", "2"),
      await put(branch, "a", "3"),
    ];
    const b1 = await put(branch, "b", "1");
    const bGone = await remove(branch, "b");
    const c1 = await put(branch, "c", "1");
    const cGone = await remove(branch, "c");
    const tagged = await put(branch, "tagged", "1");
    await branch.tags.create({ name: "v1", commit: tagged ?? "", force: false });
    const based = await put(branch, "based", "1");
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["held"] });
    const held = await put(branch, "held", "held");
    const of = (path: string, ...ids: (string | null)[]) =>
      ids.map((version) => ({ path, version: version ?? "" }));
    const asked = [
      ...[...of("a", a3, a2), ...of("b", bGone, b1), ...of("c", cGone)],
      ...[...of("a", b1, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "null"), ...of("none", a1), ...of("a", a3)],
      ...[...of("tagged", tagged), ...of("based", based), ...of("held", held)],
    ];
    const answer = await branch.erasures.erase({ versions: asked });
    if (!answer.ok) throw new Error(answer.reason);
    const stays = answer.erased.map((one) => [
      ...[one.kind, one.path, one.version],
      ...(one.kind === "version" ? [one.stays] : []),
    ]);
    expect(stays).toEqual([
      ["version", "a", a3, false],
      ["version", "a", a2, false],
      ["deletion", "b", bGone],
      // Files that are left have the same byte.
      ["version", "b", b1, true],
      ["deletion", "c", cGone],
      ["version", "tagged", tagged, true],
      ["version", "based", based, true],
      // The open commit has it.
      ["version", "held", held, true],
    ]);
    expect(await versions(branch)).toEqual([`a@${a1}*`, `c@${c1}*`]);
    expect(await listed(branch)).toEqual(["a", "c"]);
    expect(await listed(branch, { commit: answer.commit ?? "" })).toEqual(["a", "c"]);
    expect(await listed(branch, { commit: tagged ?? "" })).toEqual([]);
    const told = await branch.erasures.list({ uid: "u", after: 0 });
    expect(told).toMatchObject({ upTo: 6 });
    expect(told.erasures.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(told.erasures.map(({ path }) => path).sort()).toEqual(["a", "a", "b", "based", "held", "tagged"]);
    await branch.feed.unsubscribe({ uid: "u" });
    await branch.openCommits.abort({ openCommit });
    await expectRefsRight(branch);
  });

  test.each([
    ["as they are sorted", (versions: VersionName[]) => versions],
    ["the other way round", (versions: VersionName[]) => versions.toReversed()],
  ])("brings back what is above if two are in each other's way, asked %s", async (_, order) => {
    const branch = await freshBranch();
    const ids = new Map<string, string>();
    const gone: VersionName[] = [];
    for (const path of ["a/b/c", "a/b/", "a/b", "a", "a!", "a/b!", "e/f/g"]) {
      ids.set(path, (await put(branch, path, path.endsWith("/") ? "" : path)) ?? "");
      gone.push({ path, version: await remove(branch, path) });
    }
    // Two levels above, HEAD has a file now.
    await put(branch, "e");
    expect(await branch.erasures.erase({ versions: order(gone) })).toMatchObject({ ok: true });
    expect(await listed(branch)).toEqual(["a", "a!", "e"]);
    expect(await textOf(branch, "a/b/c", ids.get("a/b/c"))).toBe("a/b/c");
    expect(await textOf(branch, "e/f/g", ids.get("e/f/g"))).toBe("e/f/g");
    await expectRefsRight(branch);
  });

  test("leaves what it need not remove at once to the alarm", async () => {
    const branch = await freshBranch();
    const paths = Array.from({ length: 300 }, (_, n) => `${n}`);
    const puts = Object.fromEntries(paths.map((path) => [path, path]));
    const version = committed(await commitFiles(branch, { puts })) ?? "";
    const left = await inObject(branch, async (object, { storage: { sql } }) => {
      await object.erasures.erase({ versions: paths.map((path) => ({ path, version })) });
      return Number(sql.exec("SELECT count(*) AS n FROM contents").one().n);
    });
    expect(left).toBe(280);
    await atRest(branch);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [] });
  });

  test("looks up the contents that are not where they were seen before", async () => {
    const branch = await freshBranch();
    for (const path of ["a", "b"]) await put(branch, path);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      const tables = new Sql(sql);
      const contents = new ContentStore(tables, new PendingDeletionStore(tables));
      const [a, b, none] = [inline("a"), inline("b"), inline("none")].map(contentName) as [
        string,
        string,
        string,
      ];
      const there = contents.rowids(new Set([a, b, none]), { gen: 1, known: new Map() });
      expect([...there.keys()]).toEqual([a, b]);
      const [ofA = 0, ofB = 0] = there.values();
      for (const known of [
        new Map([[a, ofA]]),
        new Map([[a, ofB]]),
        new Map([
          [a, ofB],
          [b, ofA],
        ]),
        new Map([
          [b, ofB + 1],
          [none, ofA],
        ]),
      ]) {
        expect(contents.rowids(new Set([a, b, none]), { gen: 1, known })).toEqual(there);
      }
      expect(contents.rowids(new Set([b]), { gen: 1, known: there })).toEqual(new Map([[b, ofB]]));
      expect(contents.rowids(new Set([a]), { gen: 2, known: there })).toEqual(new Map());
    });
  });

  test.each([1, 2, 3])("brings back what a put one after the other could (%i)", async (seed) => {
    const random = randomNumbers(seed * 104_729);
    const names = ["a", "b", "a!"];
    const anyPath = () => {
      const depth = 1 + Math.floor(random() * 4);
      const path = Array.from({ length: depth }, () => names[Math.floor(random() * names.length)]).join("/");
      return random() < 0.2 ? `${path}/` : path;
    };
    const isFree = (path: string, there: ReadonlySet<string>) =>
      [...there].every((other) => {
        const [above, below] = other.length < path.length ? [other, path] : [path, other];
        return above !== below && (above.endsWith("/") || !below.startsWith(`${above}/`));
      });
    const grown = (from: ReadonlySet<string>, paths: readonly string[]) => {
      const tree = new Set(from);
      for (const path of paths) if (isFree(path, tree)) tree.add(path);
      return tree;
    };
    const anyPaths = () => Array.from({ length: Math.floor(random() * 12) }, anyPath);
    const branch = await freshBranch();
    await runInDurableObject(branch, (_, { storage }) => {
      const sql = new Sql(storage.sql);
      const files = new FileStore(sql, new ReadCache(0));
      for (let gen = 2; gen < 80; gen++) {
        const head = grown(new Set(), anyPaths());
        for (const path of head) {
          const state = { digest: EMPTY_DIGEST, size: 0, attributes: null };
          files.bear(path, { gen, seq: 1, state });
        }
        const asked = [...new Set(anyPaths())].filter((path) => !head.has(path)).sort();
        const back = transaction(storage, (tx) => {
          const blocked = blockedAtHead(tx, { files }, { gen, paths: asked });
          return withoutConflicts(asked.filter((path) => !blocked.has(path)).map((path) => ({ path })));
        });
        const tree = grown(head, asked);
        expect(back.map(({ path }) => path)).toEqual([...tree].filter((path) => !head.has(path)));
        sql.run`DELETE FROM files WHERE gen = ${gen}`;
      }
    });
  });
});

describe("any history of writes, deletions and erasures", () => {
  test.each([
    1, 2, 3,
  ])("is what a simple model says, at each commit, and to a reader that lags behind (%i)", async (seed) => {
    const branch = await freshBranch();
    const life = new Life(branch, randomNumbers(seed * 7919));
    const { cursor } = await branch.feed.subscribe({ uid: "u", pipeline: "none" });
    const reader = new Reader(branch, cursor);
    for (let step = 0; step < 45; step++) {
      const what = life.random();
      if (what < 0.45) await life.write();
      else if (what < 0.6) await life.delete();
      else if (what < 0.9) await life.erase();
      else await reader.read();
      await life.isRight();
    }
    await reader.read();
    const head = [...life.model.head].map(([path, { text }]) => {
      const { digest, size } = inline(text ?? "");
      return [path, `${digest}-${size}`];
    });
    expect([...reader.seen].sort()).toEqual(head.sort());
    await expectRefsRight(branch);
    await branch.feed.unsubscribe({ uid: "u" });
    for (const one of life.all().sort(() => life.random() - 0.5)) {
      expect(await branch.erasures.erase({ versions: [one] })).toMatchObject({ ok: true });
    }
    expect(await versions(branch)).toEqual([]);
    expect(await listed(branch)).toEqual([]);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [] });
  });
});
