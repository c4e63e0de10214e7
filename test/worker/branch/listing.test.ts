import { describe, expect, test } from "vitest";
import { commitFiles, committed, freshBranch, listed, put, shown } from "./support.ts";

async function branchWith(...paths: string[]) {
  const branch = await freshBranch();
  committed(await commitFiles(branch, { puts: Object.fromEntries(paths.map((path) => [path, path])) }));
  return branch;
}

describe("listing", () => {
  test("keys come in byte order, in which '/' sorts behind '-' and '.'", async () => {
    const branch = await branchWith("a/x", "a-1", "a.b", "foo/x", "foo+1/y");
    expect(await listed(branch)).toEqual(["a-1", "a.b", "a/x", "foo+1/y", "foo/x"]);
    expect(await listed(branch, { delimiter: "/" })).toEqual(["a-1", "a.b", "[a/]", "[foo+1/]", "[foo/]"]);
  });

  test("characters beyond U+FFFF sort behind the private-use characters, as their bytes do", async () => {
    const [emoji, privateUse] = ["\u{1F600}", "\uE000"];
    const branch = await branchWith(emoji, privateUse, `${privateUse}/a`.replace("/", "-"));
    expect(await listed(branch)).toEqual([privateUse, `${privateUse}-a`, emoji]);
    expect(await listed(branch, { after: privateUse })).toEqual([`${privateUse}-a`, emoji]);
    expect(await listed(branch, { prefix: privateUse })).toEqual([privateUse, `${privateUse}-a`]);
  });

  test("a common prefix as `after` skips its subtree with a delimiter, and is a plain string without", async () => {
    const branch = await branchWith("a/1", "a/2", "a0", "b");
    expect(await listed(branch, { delimiter: "/", after: "a/" })).toEqual(["a0", "b"]);
    expect(await listed(branch, { after: "a/" })).toEqual(["a/1", "a/2", "a0", "b"]);
    expect(await listed(branch, { delimiter: "/", after: "a/1" })).toEqual(["[a/]", "a0", "b"]);
    expect(await listed(branch, { delimiter: "/", after: "a/2" })).toEqual(["a0", "b"]);
  });

  test("a prefix may end anywhere, and folds at the first '/' behind it", async () => {
    const branch = await branchWith("photos/2025/a", "photos/2026/b", "photos/index", "phone");
    const folded = { delimiter: "/" } as const;
    expect(await listed(branch, { ...folded, prefix: "ph" })).toEqual(["phone", "[photos/]"]);
    expect(await listed(branch, { ...folded, prefix: "photos" })).toEqual(["[photos/]"]);
    expect(await listed(branch, { ...folded, prefix: "photos/" })).toEqual([
      "[photos/2025/]",
      "[photos/2026/]",
      "photos/index",
    ]);
    expect(await listed(branch, { ...folded, prefix: "photos/", after: "a" })).toHaveLength(3);
    expect(await listed(branch, { ...folded, prefix: "photos/", after: "z" })).toEqual([]);
  });

  test("an empty directory is a common prefix with a delimiter, and a zero-byte key without", async () => {
    const branch = await branchWith("a");
    committed(
      await branch.files.commit({ operations: [{ put: "empty/", digest: "0".repeat(64), size: 0 }] }),
    );
    expect(await listed(branch, { delimiter: "/" })).toEqual(["a", "[empty/]"]);
    const page = await branch.files.list({ prefix: "empty/", delimiter: "/", limit: 10 });
    expect(page.ok && page.entries).toMatchObject([{ kind: "dir", path: "empty/", size: 0 }]);
    expect(await listed(branch)).toEqual(["a", "empty/"]);
    expect(await branch.files.read({ path: "empty/" })).toMatchObject({ ok: true, kind: "dir", size: 0 });
  });

  test("an empty directory that gets a file stays, and does not show twice", async () => {
    const branch = await freshBranch();
    await put(branch, "d/", "");
    await put(branch, "d/file");
    expect(await listed(branch, { delimiter: "/" })).toEqual(["[d/]"]);
    expect(await listed(branch)).toEqual(["d/", "d/file"]);
  });

  test("a page goes on from the end of the last one, also behind a common prefix", async () => {
    const branch = await branchWith("a/1", "a/2", "b", "c/1", "d");
    const seen: string[] = [];
    let after: string | null = "";
    while (after !== null) {
      const page = await branch.files.list({ prefix: "", delimiter: "/", limit: 1, after });
      if (!page.ok) throw new Error(page.reason);
      expect(page.truncated).toBe(page.next !== null);
      seen.push(...page.entries.map(shown));
      after = page.next;
    }
    expect(seen).toEqual(["[a/]", "b", "[c/]", "d"]);
  });

  test("a page holds at most 1,000 entries", async () => {
    const branch = await branchWith(...Array.from({ length: 1001 }, (_, n) => `f${n}`));
    const page = await branch.files.list({ prefix: "", limit: 5000 });
    expect(page.ok && [page.entries.length, page.truncated, page.next]).toEqual([1000, true, "f998"]);
  });

  test("a commit lists what was there then", async () => {
    const branch = await freshBranch();
    const first = await put(branch, "a", "1");
    const second = await put(branch, "b", "2");
    const third = committed(await branch.files.commit({ operations: [{ delete: "a" }] }));
    expect(await listed(branch, { commit: first ?? "" })).toEqual(["a"]);
    expect(await listed(branch, { commit: second ?? "" })).toEqual(["a", "b"]);
    expect(await listed(branch, { commit: third ?? "" })).toEqual(["b"]);
    expect(await listed(branch)).toEqual(["b"]);
  });

  test("an unknown commit is no-such-version", async () => {
    const branch = await freshBranch();
    const refused = { ok: false, reason: "no-such-version" };
    expect(await branch.files.list({ prefix: "", limit: 1, commit: "x" })).toEqual(refused);
    expect(await branch.files.read({ path: "a", commit: "x" })).toEqual(refused);
  });
});
