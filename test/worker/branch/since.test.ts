import { describe, expect, test } from "vitest";
import type { CommitPosition } from "../../../worker/branch/contract/pipelines.ts";
import { numbered, putText, seed } from "./large-support.ts";
import { type BranchStub, commitFiles, committed, freshBranch, put } from "./support.ts";

const at = (seq: number, generation = 1): CommitPosition => ({ generation, seq });

/** All files of a position that were written after another one, in small pages. */
async function filesSince(
  branch: BranchStub,
  position: CommitPosition,
  since: CommitPosition,
): Promise<string[]> {
  const paths: string[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page = await branch.feed.filesAt({ ...position, since, prefix: "", after, limit: 2 });
    paths.push(...page.files.map(({ path }) => path));
    after = page.next;
  }
  return paths;
}

describe("files since a position", () => {
  test("are those that were written after it and are there", async () => {
    const branch = await freshBranch();
    committed(await commitFiles(branch, { puts: { a: "1", b: "1", c: "1" } }));
    committed(await commitFiles(branch, { puts: { b: "2", d: "2", e: "2" } }));
    committed(await commitFiles(branch, { puts: { c: "3", f: "3" }, deletes: ["d"] }));
    expect(await filesSince(branch, at(3), at(0))).toEqual(["a", "b", "c", "e", "f"]);
    expect(await filesSince(branch, at(3), at(1))).toEqual(["b", "c", "e", "f"]);
    expect(await filesSince(branch, at(3), at(2))).toEqual(["c", "f"]);
    expect(await filesSince(branch, at(2), at(1))).toEqual(["b", "d", "e"]);
    expect(await filesSince(branch, at(3), at(3))).toEqual([]);
    expect(await filesSince(branch, at(2), at(3))).toEqual([]);
  });

  test("are all of a later generation, and none of an earlier one", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    await put(branch, "b");
    expect(await filesSince(branch, at(1, 2), at(1, 1))).toEqual(["b"]);
    expect(await filesSince(branch, at(1, 1), at(1, 2))).toEqual([]);
    expect(await branch.feed.fingerprint({ ...at(1, 1), since: at(1, 2), path: "" })).toBeNull();
    expect(await branch.feed.fingerprint({ ...at(1, 2), since: at(1, 1), path: "" })).toEqual(
      await branch.feed.fingerprint({ ...at(1, 2), path: "" }),
    );
  });

  test("have a fingerprint of their own, which is that of a tree that has only them", async () => {
    const branch = await freshBranch();
    committed(await commitFiles(branch, { puts: { "d/a": "1", "d/b": "1", e: "1" } }));
    committed(await commitFiles(branch, { puts: { "d/b": "2", "d/c": "2" } }));
    const alone = await freshBranch();
    committed(await commitFiles(alone, { puts: { "d/b": "2", "d/c": "2" } }));
    for (const path of ["", "d"]) {
      expect(await branch.feed.fingerprint({ ...at(2), since: at(1), path })).toEqual(
        await alone.feed.fingerprint({ ...at(1), path }),
      );
    }
    expect(await branch.feed.fingerprint({ ...at(2), since: at(1), path: "e" })).toBeNull();
  });

  test("are found page by page among very many others", async () => {
    const branch = await freshBranch();
    await seed(branch);
    const folders = ["a/", "b/", "c/"].map((folder) => numbered(folder, 6000));
    for (const folder of folders) {
      const operations = folder.map((path, n) => putText(path, n));
      committed(await branch.files.commit({ operations }));
    }
    const files: string[] = [];
    const pages: number[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const page = await branch.feed.filesAt({ ...at(4), since: at(2), prefix: "", after, limit: 1000 });
      files.push(...page.files.map(({ path }) => path));
      pages.push(page.files.length);
      after = page.next;
    }
    expect(files).toEqual(folders.slice(1).flat());
    expect(pages[0]).toBe(0);
    const whole = { ...at(4), since: at(2), path: "" };
    expect(await branch.feed.fingerprint(whole)).toMatchObject({ size: expect.any(Number) });
  }, 60_000);
});

describe("the position of a commit", () => {
  test("is found in any generation; of what never was, and of a deletion, there is none", async () => {
    const branch = await freshBranch();
    const first = await put(branch, "a");
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    const second = await put(branch, "b");
    expect(await branch.feed.position({ commit: first ?? "" })).toEqual(at(1, 1));
    expect(await branch.feed.position({ commit: second ?? "" })).toEqual(at(1, 2));
    const { events } = await branch.feed.read({ cursor: at(1, 1), limit: 1 });
    expect(await branch.feed.position({ commit: events[0]?.id ?? "" })).toBeNull();
    expect(await branch.feed.position({ commit: "never" })).toBeNull();
  });
});
