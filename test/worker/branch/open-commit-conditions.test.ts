import { evictDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import type { Operation, WriteCondition } from "../../../worker/branch/contract/files.ts";
import { REST, sampled } from "../../support/suite.ts";
import { crashAt, goOn, numbered, pagesOf } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  chunked,
  commitFiles,
  committed,
  completion,
  finished,
  freshBranch,
  inline,
  listed,
  put,
  randomNumbers,
  startOpenCommit,
} from "./support.ts";

const ABSENT = { noneMatch: "any" } as const;
const THERE = { match: "any" } as const;
const FAILED = { ok: false, reason: "condition-failed" };

afterEach(() => {
  vi.restoreAllMocks();
});

/** If-Match with the ETag of a text. */
function is(text: string): WriteCondition {
  const { digest, size } = inline(text);
  return { match: [{ digest, size }] };
}

/** Puts a text into an open commit, or with none into the branch. */
function write(
  branch: BranchStub,
  {
    openCommit,
    path = "x",
    text,
    condition,
  }: { openCommit?: string; path?: string; text: string; condition?: WriteCondition },
) {
  const more = { ...(openCommit && { openCommit }), ...(condition && { condition }) };
  return branch.files.put({ path, content: inline(text), attributes: {}, ...more });
}

/** Deletes in an open commit. */
function remove(
  branch: BranchStub,
  openCommit: string,
  ...operations: Extract<Operation, { delete: string }>[]
) {
  return branch.files.commit({ openCommit, operations, onFailedCondition: "leave-out" });
}

const STAGED = { ok: true, commit: null };

function changed(changes: Record<string, "added" | "changed" | "deleted">, others = 0) {
  const named = Object.entries(changes).map(([path, change]) => ({ path, change }));
  return { ok: false, reason: "conditions-changed", changes: named, others };
}

async function textAt(branch: BranchStub, path: string): Promise<string | null> {
  const read = await branch.files.read({ path });
  return read.ok && read.body.kind === "inline" ? new TextDecoder().decode(read.body.bytes) : null;
}

/** How an open commit ends that is asked to, however long it takes. */
async function ended(branch: BranchStub, openCommit: string) {
  for (;;) {
    const answer = await branch.openCommits.finish({ openCommit });
    if (!answer.ok || answer.state !== "applying") return answer;
    await scheduler.wait(1);
  }
}

/** Makes an open commit a large one: nothing of this is in the branch. */
async function fill(branch: BranchStub, openCommit: string): Promise<void> {
  const deletions = numbered("fill/", MAX_COMMIT_OPERATIONS + 1).map((path) => ({ delete: path }));
  for (const operations of pagesOf(deletions))
    committed(await branch.files.commit({ openCommit, operations }));
}

const SIZES = [
  ["small", async () => {}],
  ["large", fill],
] as const;

describe.each(SIZES)("a condition in a %s open commit", (_size, grown) => {
  test("of two that both found nothing there, one is committed and the other hears of it", async () => {
    const branch = await freshBranch();
    const [one, two] = [await startOpenCommit(branch), await startOpenCommit(branch)];
    expect(await write(branch, { openCommit: one, text: "one", condition: ABSENT })).toMatchObject(STAGED);
    expect(await write(branch, { openCommit: two, text: "two", condition: ABSENT })).toMatchObject(STAGED);
    for (const openCommit of [one, two]) await grown(branch, openCommit);
    expect(await ended(branch, one)).toMatchObject({ state: "finished" });
    const { head } = (await branch.lifecycle.status()) as { head: string };
    for (const _again of [1, 2]) expect(await ended(branch, two)).toEqual(changed({ x: "added" }));
    expect(await textAt(branch, "x")).toBe("one");
    expect(await branch.lifecycle.status()).toMatchObject({ head });
    expect(await branch.openCommits.status({ openCommit: two })).toMatchObject({ state: "open" });
    expect(await branch.openCommits.abort({ openCommit: two })).toEqual({ ok: true });
  });

  test("that was judged before a direct write refuses to overwrite that, until it is told to", async () => {
    const branch = await freshBranch();
    for (const path of ["a", "b", "c", "d", "e"]) await put(branch, path, "old");
    const openCommit = await startOpenCommit(branch);
    for (const path of ["a", "b", "c"]) {
      expect(await write(branch, { openCommit, path, text: "new", condition: is("old") })).toMatchObject(
        STAGED,
      );
    }
    await remove(
      branch,
      openCommit,
      { delete: "d", condition: is("old") },
      { delete: "e", condition: THERE },
    );
    await write(branch, { openCommit, path: "fresh", text: "new", condition: ABSENT });
    await grown(branch, openCommit);
    await evictDurableObject(branch);
    await put(branch, "a", "acknowledged");
    committed(await branch.files.commit({ operations: [{ delete: "b" }] }));
    await put(branch, "d", "acknowledged");
    await put(branch, "fresh", "acknowledged");
    const why = { a: "changed", b: "deleted", d: "changed", fresh: "added" } as const;
    expect(await ended(branch, openCommit)).toEqual(changed(why));
    expect(await listed(branch)).toEqual(["a", "c", "d", "e", "fresh"]);
    expect(await textAt(branch, "a")).toBe("acknowledged");
    await write(branch, { openCommit, path: "a", text: "new" });
    await remove(branch, openCommit, { delete: "b" }, { delete: "d" });
    const { fresh } = why;
    expect(await ended(branch, openCommit)).toEqual(changed({ fresh }));
    await write(branch, { openCommit, path: "fresh", text: "mine" });
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual(["a", "c", "fresh"]);
    expect(await textAt(branch, "a")).toBe("new");
    expect(await textAt(branch, "fresh")).toBe("mine");
  });

  test("that still has what it was judged on is committed, whatever else has changed", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "old");
    const openCommit = await startOpenCommit(branch);
    await write(branch, { openCommit, path: "a", text: "new", condition: is("old") });
    await write(branch, { openCommit, path: "b", text: "new", condition: ABSENT });
    await grown(branch, openCommit);
    await put(branch, "other", "direct");
    // The same again is no change.
    await put(branch, "a", "old");
    await finished(branch, openCommit);
    expect(await textAt(branch, "a")).toBe("new");
    expect(await listed(branch)).toEqual(["a", "b", "other"]);
  });
});

describe("what a condition stands for", () => {
  test("is what was judged first: later ones on the open commit's own write add nothing and take nothing away", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await write(branch, { openCommit, text: "1", condition: ABSENT });
    expect(await write(branch, { openCommit, text: "2", condition: ABSENT })).toMatchObject(FAILED);
    expect(await write(branch, { openCommit, text: "2", condition: is("1") })).toMatchObject(STAGED);
    await put(branch, "x", "direct");
    // Not about what is in the branch: the open commit shows its own write.
    expect(await write(branch, { openCommit, text: "3", condition: is("2") })).toMatchObject(STAGED);
    expect(await write(branch, { openCommit, text: "3", condition: is("direct") })).toMatchObject(FAILED);
    expect(await ended(branch, openCommit)).toEqual(changed({ x: "added" }));
  });

  test("is nothing in the branch if the open commit had written there without a condition before", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await write(branch, { openCommit, path: "put", text: "1" });
    await write(branch, { openCommit, path: "put", text: "2", condition: is("1") });
    await remove(branch, openCommit, { delete: "gone" });
    await write(branch, { openCommit, path: "gone", text: "2", condition: ABSENT });
    for (const path of ["put", "gone"]) await put(branch, path, "direct");
    await finished(branch, openCommit);
    expect(await textAt(branch, "put")).toBe("2");
    expect(await textAt(branch, "gone")).toBe("2");
  });

  test("goes with a write without a condition, also one of the same bytes, and a deletion", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    for (const path of ["a", "b", "c"])
      await write(branch, { openCommit, path, text: "1", condition: ABSENT });
    for (const path of ["a", "b", "c"]) await put(branch, path, "direct");
    await write(branch, { openCommit, path: "a", text: "1" });
    await remove(branch, openCommit, { delete: "b" });
    const { digest, size } = inline("1");
    committed(await branch.files.commit({ openCommit, operations: [{ put: "c", digest, size }] }));
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual(["a", "c"]);
    expect(await textAt(branch, "c")).toBe("1");
  });

  test("is the version: other attributes on the same bytes are a change, and so is a file that came again", async () => {
    const branch = await freshBranch();
    for (const path of ["a", "b"]) await put(branch, path, "old");
    const openCommit = await startOpenCommit(branch);
    for (const path of ["a", "b"])
      await write(branch, { openCommit, path, text: "new", condition: is("old") });
    await branch.files.put({ path: "a", content: inline("old"), attributes: { contentType: "text/x" } });
    committed(await branch.files.commit({ operations: [{ delete: "b" }] }));
    await put(branch, "b", "old");
    expect(await ended(branch, openCommit)).toEqual(changed({ a: "changed", b: "changed" }));
  });

  test("holds for an object put together from parts, and for one that refers to a content", async () => {
    const branch = await freshBranch();
    await put(branch, "source", "bytes");
    const openCommit = await startOpenCommit(branch);
    const upload = await begin(branch, { openCommit, path: "parts" });
    const one = chunked("one", ["b/one"]);
    await branch.multipart.addPart({ upload, number: 1, content: one });
    const completed = { ...completion(upload, { 1: one }), condition: ABSENT };
    expect(await branch.multipart.complete(completed)).toMatchObject({ ok: true, commit: null });
    const { digest, size } = inline("bytes");
    const copy = { put: "copy", digest, size, condition: ABSENT };
    expect(await branch.files.commit({ openCommit, operations: [copy] })).toMatchObject(STAGED);
    for (const path of ["parts", "copy"]) await put(branch, path, "direct");
    expect(await ended(branch, openCommit)).toEqual(changed({ copy: "added", parts: "added" }));
  });

  test("is not there for a deletion that its ETag left out", async () => {
    const branch = await freshBranch();
    await put(branch, "x", "old");
    const openCommit = await startOpenCommit(branch);
    const [kept, gone] = [{ delete: "x", condition: is("other") }, { delete: "x" }];
    expect(await remove(branch, openCommit, kept, gone)).toMatchObject({ leftOut: [{ path: "x" }] });
    await put(branch, "x", "direct");
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual([]);
  });

  test("of one call is each of its conditions, whatever comes after them in it", async () => {
    const branch = await freshBranch();
    const { digest, size } = inline("mine");
    committed(await commitFiles(branch, { puts: { seed: "mine" } }));
    const openCommit = await startOpenCommit(branch);
    const operations = [
      { put: "x", digest, size, condition: ABSENT },
      { put: "x", digest, size, attributes: { contentType: "text/x" } },
    ];
    committed(await branch.files.commit({ openCommit, operations }));
    await put(branch, "x", "direct");
    expect(await ended(branch, openCommit)).toEqual(changed({ x: "added" }));
  });
});

describe("a large open commit", () => {
  test("is checked while other writers wait, so that what was found to hold holds when it is there", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await write(branch, { openCommit, text: "mine", condition: ABSENT });
    await fill(branch, openCommit);
    // The conditions were looked at; what is put is not yet.
    const crash = crashAt({
      statement: /FROM staged WHERE openCommit = \?2 AND gone = 0 AND path > \?3/,
      nth: 1,
    });
    expect(await branch.openCommits.finish({ openCommit })).toMatchObject({ state: "applying" });
    await crash.reached();
    const direct = put(branch, "x", "direct");
    crash.resume();
    await goOn(branch);
    const { commit } = await finished(branch, openCommit);
    const later = await direct;
    expect(await branch.files.read({ path: "x", commit: commit ?? "" })).toMatchObject(inline("mine"));
    expect(await branch.files.read({ path: "x" })).toMatchObject({ ...inline("direct"), commit: later });
  });

  test("names what has changed wherever it is, and of very much the first thousand", REST, async () => {
    const branch = await freshBranch();
    committed(await commitFiles(branch, { puts: { seed: "seed" } }));
    const { digest, size } = inline("seed");
    const paths = numbered("p/", MAX_COMMIT_OPERATIONS + 1);
    const openCommit = await startOpenCommit(branch);
    for (const page of pagesOf(paths)) {
      const operations = page.map((path) => ({ put: path, digest, size, condition: ABSENT }));
      committed(await branch.files.commit({ openCommit, operations }));
    }
    const far = [paths[0] ?? "", paths[5000] ?? "", paths.at(-1) ?? ""];
    committed(await branch.files.commit({ operations: far.map((path) => ({ put: path, digest, size })) }));
    expect(await ended(branch, openCommit)).toEqual(
      changed(Object.fromEntries(far.map((path) => [path, "added"]))),
    );
    const many = paths.slice(0, 3000);
    committed(await branch.files.commit({ operations: many.map((path) => ({ put: path, digest, size })) }));
    const refused = await ended(branch, openCommit);
    expect(refused).toMatchObject({ reason: "conditions-changed", others: 2002 });
    const named = "changes" in refused ? refused.changes.map(({ path }) => path) : [];
    expect(named).toEqual(paths.slice(0, 1000));
  });
});

const PATHS = ["a", "b", "c"];
const TEXTS = ["1", "2", "3"];

/** What somebody does to a path. Null: deletes it. */
interface Move {
  readonly path: string;
  readonly text: string | null;
  readonly condition: WriteCondition | undefined;
}

interface ModelOpen {
  readonly operations: Map<string, string | null>;
  /** By path: the version that HEAD must still have. */
  readonly stand: Map<string, number>;
}

/** HEAD and open commits, with nothing clever. Versions count up; 0 is nothing. */
class Model {
  readonly head = new Map<string, { text: string; version: number }>();
  readonly open = new Map<string, ModelOpen>();
  #version = 0;

  direct({ path, text, condition }: Move): boolean {
    if (!holds(condition, this.head.get(path)?.text ?? null)) return false;
    this.#write(path, text);
    return true;
  }

  stage(openCommit: string, { path, text, condition }: Move): boolean {
    const { operations, stand } = this.#get(openCommit);
    const own = operations.get(path);
    if (!holds(condition, own === undefined ? (this.head.get(path)?.text ?? null) : own)) return false;
    if (!condition) stand.delete(path);
    else if (own === undefined) stand.set(path, this.head.get(path)?.version ?? 0);
    operations.set(path, text);
    return true;
  }

  /** The paths for which it is refused; none if it is made. */
  finish(openCommit: string): string[] {
    const { operations, stand } = this.#get(openCommit);
    const refused = [...stand].flatMap(([path, version]) =>
      (this.head.get(path)?.version ?? 0) === version ? [] : [path],
    );
    if (refused.length > 0) return refused.sort();
    for (const [path, text] of operations) this.#write(path, text);
    this.open.delete(openCommit);
    return [];
  }

  /** The same again is no change. */
  #write(path: string, text: string | null): void {
    this.#version++;
    if (text === null) this.head.delete(path);
    else if (this.head.get(path)?.text !== text) this.head.set(path, { text, version: this.#version });
  }

  #get(openCommit: string): ModelOpen {
    const found = this.open.get(openCommit);
    if (!found) throw new Error(`no open commit ${openCommit}`);
    return found;
  }
}

function holds(condition: WriteCondition | undefined, text: string | null): boolean {
  if (!condition) return true;
  if (condition.noneMatch !== undefined) return text === null;
  if (condition.match === "any") return text !== null;
  return text !== null && JSON.stringify(is(text)) === JSON.stringify(condition);
}

for (const [seed, options] of sampled([1, 2, 3, 4, 5, 6], { every: 6 })) {
  test(
    `two open commits and direct writes in any order end as a model says (seed ${seed})`,
    options,
    async () => {
      const branch = await freshBranch();
      const model = new Model();
      const random = randomNumbers(seed);
      const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
      committed(
        await commitFiles(branch, { puts: Object.fromEntries(TEXTS.map((text) => [`seed/${text}`, text])) }),
      );
      let refusals = 0;
      for (let step = 0; step < 150; step++) {
        if (model.open.size < 2) {
          model.open.set(await startOpenCommit(branch), { operations: new Map(), stand: new Map() });
        }
        const openCommit = pick([...model.open.keys()]);
        const conditions = [undefined, ABSENT, THERE, is(pick(TEXTS))];
        const text = random() < 0.25 ? null : pick(TEXTS);
        // A deletion has no If-None-Match.
        const condition = pick(text === null ? conditions.filter((one) => one !== ABSENT) : conditions);
        const move = { path: pick(PATHS), text, condition };
        const kind = random();
        if (kind < 0.3) expect(await moved(branch, move)).toBe(model.direct(move));
        else if (kind < 0.8)
          expect(await moved(branch, move, openCommit)).toBe(model.stage(openCommit, move));
        else if (kind < 0.85) {
          await branch.openCommits.abort({ openCommit });
          model.open.delete(openCommit);
        } else {
          const refused = model.finish(openCommit);
          const answer = await ended(branch, openCommit);
          expect("changes" in answer ? answer.changes.map(({ path }) => path) : []).toEqual(refused);
          expect(answer.ok).toBe(refused.length === 0);
          refusals += Math.min(refused.length, 1);
        }
        for (const path of PATHS) expect(await textAt(branch, path)).toBe(model.head.get(path)?.text ?? null);
      }
      expect(refusals).toBeGreaterThan(0);
    },
  );
}

/** By a call of one file or of many: they stage in ways of their own. Returns whether it was done. */
async function moved(
  branch: BranchStub,
  { path, text, condition }: Move,
  openCommit?: string,
): Promise<boolean> {
  const into = { ...(openCommit && { openCommit }) };
  const given = { ...(condition && { condition }) };
  if (text === null) {
    return (await branch.files.commit({ ...into, operations: [{ delete: path, ...given }] })).ok;
  }
  const content = inline(text);
  if (text === "1") return (await branch.files.put({ ...into, path, content, attributes: {}, ...given })).ok;
  const { digest, size } = content;
  return (await branch.files.commit({ ...into, operations: [{ put: path, digest, size, ...given }] })).ok;
}
