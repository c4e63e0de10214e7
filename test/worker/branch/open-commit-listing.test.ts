import { describe, expect, test, vi } from "vitest";
import type { ListFiles, Operation } from "../../../worker/branch/contract/files.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { numbered, putText, seed, stageAll } from "./large-support.ts";
import {
  type BranchStub,
  byBytes,
  commitFiles,
  committed,
  finished,
  freshBranch,
  inline,
  inObject,
  listed,
  randomNumbers,
  shown,
  startOpenCommit,
} from "./support.ts";

const ROUNDS = 40;
const SEGMENTS = ["a", "a-1", "a.b", "a0", "b", "foo", "foo+1", "\u{1F600}", "\uE000", "é", "z"];
const PREFIXES = ["", "a", "a/", "a-", "foo/", "foo/a", "\u{1F600}", "\uE000/", "é", "zz"];
const TEXTS = ["1", "22", "333"];

type Tree = ReadonlyMap<string, string>;

/** The whole listing as S3 describes it, with nothing clever. */
function naive(tree: Tree, { prefix, delimiter }: { prefix: string; delimiter: "/" | undefined }): string[] {
  const entries = new Set<string>();
  for (const path of [...tree.keys()].sort(byBytes)) {
    if (!path.startsWith(prefix)) continue;
    const slash = delimiter ? path.indexOf("/", prefix.length) : -1;
    entries.add(slash < 0 ? path : `[${path.slice(0, slash + 1)}]`);
  }
  return [...entries];
}

function isFree(path: string, tree: Tree): boolean {
  const plain = path.endsWith("/") ? path.slice(0, -1) : path;
  return [...tree.keys()].every((other) => {
    const below = other.startsWith(`${plain}/`) && !path.endsWith("/");
    return !below && !path.startsWith(`${other}/`);
  });
}

/** Random operations on a tree that leave it one that can be; the tree after them goes into `next`. */
function randomOperations(next: Map<string, string>, random: () => number): Operation[] {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const operations: Operation[] = [];
  for (const path of [...next.keys()]) {
    if (random() > 0.2) continue;
    next.delete(path);
    operations.push({ delete: path });
  }
  for (let n = Math.floor(random() * 8); n > 0; n--) {
    const segments = Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(SEGMENTS));
    const path = segments.join("/") + (random() < 0.15 ? "/" : "");
    if (!isFree(path, next)) continue;
    const text = path.endsWith("/") ? "" : pick(TEXTS);
    const { digest, size } = inline(text);
    operations.push({ put: path, digest, size });
    next.set(path, text);
  }
  return operations;
}

async function allPages(branch: BranchStub, request: ListFiles): Promise<string[]> {
  const entries: string[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page = await branch.files.list({ ...request, after });
    if (!page.ok) throw new Error(page.reason);
    expect(page.entries.length).toBeLessThanOrEqual(request.limit);
    entries.push(...page.entries.map(shown));
    after = page.next;
  }
  return entries;
}

describe.each([1, 2, 3, 4])("random operations in an open commit %i", (seedNumber) => {
  test("list, page by page, as a naive tree that has them, and so it is when it is finished", async () => {
    const branch = await freshBranch();
    const random = randomNumbers(seedNumber);
    const contents = Object.fromEntries(TEXTS.map((text) => [`keep/${text}`, text]));
    committed(await commitFiles(branch, { puts: contents }));
    const tree = new Map(Object.entries(contents));
    for (let n = 0; n < 4; n++) {
      const operations = randomOperations(tree, random).filter(
        (operation) => !("delete" in operation && operation.delete.startsWith("keep/")),
      );
      for (const [path, text] of Object.entries(contents)) tree.set(path, text);
      committed(await branch.files.commit({ operations }));
    }
    const openCommit = await startOpenCommit(branch);
    for (let round = 0; round < ROUNDS; round++) {
      committed(await branch.files.commit({ openCommit, operations: randomOperations(tree, random) }));
      for (let n = 0; n < 3; n++) {
        const prefix = PREFIXES[Math.floor(random() * PREFIXES.length)] ?? "";
        const delimiter = random() < 0.5 ? ("/" as const) : undefined;
        const limit = 1 + Math.floor(random() * 7);
        const request = { openCommit, prefix, limit, ...(delimiter && { delimiter }) };
        expect(await allPages(branch, request)).toEqual(naive(tree, { prefix, delimiter }));
      }
    }
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual(naive(tree, { prefix: "", delimiter: undefined }));
  }, 120_000);
});

/** How many rows the database read for a page of an open commit. */
function rowsRead(branch: BranchStub, request: ListFiles): Promise<number> {
  return inObject(branch, async (object) => {
    const statements = vi.spyOn(Sql.prototype, "execute");
    try {
      await object.files.list(request);
      const cursors = statements.mock.results.map(({ value }) => value as SqlStorageCursor<never>);
      return cursors.reduce((rows, cursor) => rows + cursor.rowsRead, 0);
    } finally {
      statements.mockRestore();
    }
  });
}

describe("what is read for a page of an open commit", () => {
  test("does not grow with what is staged, or with the branch", async () => {
    const read = [];
    for (const size of [100, 9000]) {
      const branch = await freshBranch();
      await seed(branch);
      const [there, added] = [numbered("d/", size), numbered("e/", size)];
      committed(await branch.files.commit({ operations: there.map((path, n) => putText(path, n)) }));
      const openCommit = await stageAll(branch, [
        ...added.map((path, n) => putText(path, n)),
        ...there.filter((_, n) => n % 3 === 0).map((path) => ({ delete: path })),
      ]);
      const flat = { openCommit, prefix: "", limit: 20 };
      read.push([
        await rowsRead(branch, { ...flat, after: "d/000040" }),
        await rowsRead(branch, { ...flat, after: "e/000040" }),
        await rowsRead(branch, { ...flat, delimiter: "/" }),
      ]);
    }
    const [small = [], large = []] = read;
    for (const [n, rows] of large.entries()) expect(rows).toBeLessThan(2 * (small[n] ?? 0));
  }, 60_000);

  test("ends with a short page if very much is deleted", async () => {
    const branch = await freshBranch();
    await seed(branch);
    const there = numbered("d/", 9000);
    committed(await branch.files.commit({ operations: there.map((path, n) => putText(path, n)) }));
    const openCommit = await stageAll(
      branch,
      there.map((path) => ({ delete: path })),
    );
    for (const delimiter of ["/", undefined] as const) {
      const request = { openCommit, prefix: "", limit: 1000, ...(delimiter && { delimiter }) };
      const page = await branch.files.list(request);
      expect(page).toMatchObject({ entries: [], truncated: true, next: expect.stringMatching(/^d\//) });
      expect(await allPages(branch, request)).toEqual(
        delimiter ? ["[seed/]"] : await listed(branch, { prefix: "seed/" }),
      );
    }
  }, 60_000);
});
