import { describe, expect, test, vi } from "vitest";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { ListFiles, ListVersions } from "../../../worker/branch/contract/files.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { type BranchStub, commitFiles, freshBranch, inObject, put } from "./support.ts";

/** How many rows the database read for a call. */
function rowsRead(branch: BranchStub, call: (object: BranchApi) => Promise<unknown>): Promise<number> {
  return inObject(branch, async (object) => {
    const statements = vi.spyOn(Sql.prototype, "execute");
    try {
      await call(object);
      const cursors = statements.mock.results.map(({ value }) => value as SqlStorageCursor<never>);
      return cursors.reduce((rows, cursor) => rows + cursor.rowsRead, 0);
    } finally {
      statements.mockRestore();
    }
  });
}

/** A branch with so many files in one directory, and one beside it. */
async function withFolder(files: number, versions: number): Promise<BranchStub> {
  const branch = await freshBranch();
  const paths = Array.from({ length: files }, (_, n) => `dir/${n.toString().padStart(5, "0")}`);
  for (let version = 0; version < versions; version++) {
    const puts = Object.fromEntries([...paths, "e"].map((path) => [path, `version ${version}`]));
    await commitFiles(branch, { puts });
  }
  return branch;
}

describe("what is read for a page", () => {
  const folded = { prefix: "", delimiter: "/", limit: 10 } as const;

  test.each<[string, (object: BranchApi) => Promise<unknown>]>([
    ["files", (object) => object.files.list(folded)],
    ["files after a common prefix", (object) => object.files.list({ ...folded, after: "dir/" })],
    ["versions", (object) => object.files.versions(folded)],
    [
      "versions after a common prefix",
      (object) => object.files.versions({ ...folded, after: { path: "dir/" } }),
    ],
  ])("of %s does not grow with what a common prefix stands for", async (_, call) => {
    const [small, large] = [await withFolder(1, 2), await withFolder(1500, 2)];
    expect(await rowsRead(large, call)).toBe(await rowsRead(small, call));
  });

  test("of common prefixes is two rows each, which is what finding the next one takes", async () => {
    const branch = await freshBranch();
    const paths = Array.from({ length: 200 }, (_, n) => `${100 + Math.floor(n / 2)}/${n}`);
    await commitFiles(branch, { puts: Object.fromEntries(paths.map((path) => [path, ""])) });
    const page = { ...folded, limit: 90 };
    expect(await rowsRead(branch, (object) => object.files.list(page))).toBeLessThan(2 * 90 + 10);
    expect(await rowsRead(branch, (object) => object.files.versions(page))).toBeLessThan(2 * 90 + 10);
  });

  test("of files, flat, is what the page shows, wherever in the tree", async () => {
    const branch = await withFolder(1500, 1);
    for (const after of ["", "dir/00700"]) {
      const page: ListFiles = { prefix: "dir/", limit: 10, after };
      expect(await rowsRead(branch, (object) => object.files.list(page))).toBeLessThan(30);
    }
  });

  test("of versions, flat, is about what the page shows, however many versions a path has", async () => {
    const branch = await freshBranch();
    const commits: (string | null)[] = [];
    for (let n = 0; n < 300; n++) commits.push(await put(branch, "hot", `${n}`));
    const marks = [undefined, { path: "hot", version: commits[150] ?? "" }];
    for (const after of marks) {
      const page: ListVersions = { prefix: "", limit: 10, ...(after && { after }) };
      expect(await rowsRead(branch, (object) => object.files.versions(page))).toBeLessThan(60);
    }
    const beside: ListVersions = { ...folded, after: { path: "hot" } };
    expect(await rowsRead(branch, (object) => object.files.versions(beside))).toBeLessThan(10);
  });

  test("of changes is about what the page shows, however many were replaced or deleted", async () => {
    const branch = await withFolder(1500, 2);
    await commitFiles(branch, {
      puts: { "dir/00000": "new" },
      deletes: Array.from({ length: 1400 }, (_, n) => `dir/${(n + 50).toString().padStart(5, "0")}`),
    });
    for (const seq of [2, 3]) {
      for (const after of ["", "dir/00700"]) {
        const page = { generation: 1, seq, after, limit: 10 };
        expect(await rowsRead(branch, (object) => object.feed.changes(page))).toBeLessThan(60);
      }
    }
  });

  test("of multipart uploads is what the page shows", async () => {
    const branch = await freshBranch();
    for (let n = 0; n < 100; n++)
      await branch.multipart.create({ path: `p${n}`, attributes: {}, ttlMs: 1e6 });
    const page = { prefix: "p", limit: 5, after: { path: "p50" } };
    expect(await rowsRead(branch, (object) => object.multipart.list(page))).toBeLessThan(20);
  });
});
