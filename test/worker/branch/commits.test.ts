import { describe, expect, test } from "vitest";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { chunked, commitFiles, committed, freshBranch, inline, inObject, listed, put } from "./support.ts";

describe("reading", () => {
  test("a file comes back with its bytes, attributes and the commit that wrote it", async () => {
    const branch = await freshBranch();
    const content = inline("hello");
    const attributes = { contentType: "text/plain", metadata: { b: "2", a: "1" } };
    const commit = committed(await branch.files.put({ path: "a", content, attributes }));
    const read = await branch.files.read({ path: "a" });
    expect(read).toMatchObject({
      ok: true,
      kind: "file",
      digest: content.digest,
      size: 5,
      attributes,
      commit,
    });
    expect(read.ok && read.body).toEqual(content.body);
  });

  test("a file is read as of a commit; at HEAD its version is what wrote it, and its time that of the newest commit", async () => {
    const branch = await freshBranch();
    const first = await put(branch, "a", "1");
    const second = await put(branch, "a", "2");
    const last = await branch.files.put({ path: "b", content: inline("b"), attributes: {} });
    expect(await branch.files.read({ path: "a", commit: first ?? "" })).toMatchObject({
      ok: true,
      ...inline("1"),
    });
    expect(await branch.files.read({ path: "b", commit: first ?? "" })).toEqual({
      ok: false,
      reason: "no-such-version",
    });
    expect(await branch.files.read({ path: "a" })).toMatchObject({
      ...inline("2"),
      modifiedAt: last.ok && last.modifiedAt,
      commit: second,
    });
  });

  test("a content in blobs comes back as its chunks", async () => {
    const branch = await freshBranch();
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const content = chunked("large", ["b/1", "b/2"]);
    const { upload } = opened;
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    expect(await branch.files.read({ path: "a" })).toMatchObject({ body: content.body });
    expect(await branch.files.content(content)).toEqual({ ok: true, body: content.body });
  });
});

describe("committing", () => {
  test("identical content and attributes make no commit; other attributes do", async () => {
    const branch = await freshBranch();
    const content = inline("same");
    const attributes = { contentType: "text/plain", metadata: { a: "1", b: "2" } };
    const first = await branch.files.put({ path: "a", content, attributes });
    const same = { contentType: "text/plain", metadata: { b: "2", a: "1" } };
    const again = await branch.files.put({ path: "a", content, attributes: same });
    expect(again).toEqual({ ok: true, commit: null, modifiedAt: first.ok && first.modifiedAt });
    expect(committed(await branch.files.put({ path: "a", content, attributes: {} }))).not.toBeNull();
  });

  test("deleting what is not there makes no commit", async () => {
    const branch = await freshBranch();
    expect(
      committed(await branch.files.commit({ operations: [{ delete: "a" }, { delete: "b/c" }] })),
    ).toBeNull();
    expect((await branch.lifecycle.status()).ok).toBe(true);
  });

  test("the last operation on a path wins", async () => {
    const branch = await freshBranch();
    await commitFiles(branch, { puts: { seed: "x", other: "y" } });
    const [x, y] = [inline("x"), inline("y")];
    committed(
      await branch.files.commit({
        operations: [{ put: "a", ...x }, { delete: "seed" }, { put: "a", ...y }, { put: "seed", ...x }],
      }),
    );
    expect(await branch.files.read({ path: "a" })).toMatchObject({ digest: y.digest });
    expect(await listed(branch)).toEqual(["a", "other", "seed"]);
  });

  test("many operations are one commit", async () => {
    const branch = await freshBranch();
    const puts = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`d${n % 7}/f${n}`, `text ${n}`]));
    const commit = committed(await commitFiles(branch, { puts }));
    expect(await branch.lifecycle.status()).toMatchObject({ head: commit });
    const { events } = await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 1000 });
    expect(events.map(({ changes }) => changes.length)).toEqual([300]);
  });

  test("over 10,000 operations are refused", async () => {
    const branch = await freshBranch();
    const operations = Array.from({ length: 10_001 }, (_, n) => ({ delete: `f${n}` }));
    expect(await branch.files.commit({ operations })).toEqual({ ok: false, reason: "too-many-operations" });
  });

  test("a content that the branch does not have is refused, with the path", async () => {
    const branch = await freshBranch();
    const { digest, size } = inline("nowhere");
    expect(await branch.files.commit({ operations: [{ put: "a", digest, size }] })).toEqual({
      ok: false,
      reason: "no-such-content",
      path: "a",
    });
  });

  test.each([
    ["", "empty"],
    ["/a", "empty-segment"],
    ["a//b", "empty-segment"],
    ["a/../b", "dot-segment"],
    ["a\u0007", "control-character"],
    ["é".repeat(513), "too-long"],
  ])("the path %j is refused as %s", async (path, fault) => {
    const branch = await freshBranch();
    const refused = { ok: false, reason: "bad-path", path, fault };
    expect(await branch.files.put({ path, content: inline("x"), attributes: {} })).toEqual(refused);
    expect(await branch.files.commit({ operations: [{ delete: path }] })).toEqual(refused);
  });

  test("bytes for an empty directory are refused", async () => {
    const branch = await freshBranch();
    expect(await branch.files.put({ path: "d/", content: inline("x"), attributes: {} })).toEqual({
      ok: false,
      reason: "bad-path",
      path: "d/",
      fault: "directory-with-bytes",
    });
  });

  test("commit times never go back, and ids sort as the commits do", async () => {
    const branch = await freshBranch();
    for (let n = 0; n < 30; n++) await put(branch, `f${n}`);
    const { events } = await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 100 });
    const ids = events.map(({ id }) => id);
    const times = events.map(({ createdAt }) => createdAt);
    expect(ids.toSorted()).toEqual(ids);
    expect(times.toSorted((a, b) => a - b)).toEqual(times);
  });
});

describe("a path is a file or a directory, never both", () => {
  const conflict = (path: string, other: string) => ({ ok: false, reason: "path-conflict", path, other });

  test.each([
    [["a"], "a/b", "a"],
    [["a"], "a/b/c/d", "a"],
    [["a"], "a/", "a"],
    [["a/b/c"], "a/b", "a/b/c"],
    [["a/b/c"], "a", "a/b/c"],
    [["a/"], "a", "a/"],
    [["a/b", "x"], "a/b/", "a/b"],
  ])("where %j is, %s is refused because of %s", async (there, path, other) => {
    const branch = await freshBranch();
    for (const each of there) await put(branch, each, each.endsWith("/") ? "" : each);
    const content = inline(path.endsWith("/") ? "" : "new");
    expect(await branch.files.put({ path, content, attributes: {} })).toEqual(conflict(path, other));
    expect(await listed(branch)).toEqual(there.toSorted());
  });

  test.each(["a-b", "a.b", "a0", "ab/c"])("beside the directory a, %s is fine", async (path) => {
    const branch = await freshBranch();
    await put(branch, "a/b");
    expect(await put(branch, path)).not.toBeNull();
  });

  test("a commit may replace a file by a directory, and back", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    committed(await commitFiles(branch, { deletes: ["a"], puts: { "a/b": "1", "a/c/d": "2" } }));
    expect(await listed(branch)).toEqual(["a/b", "a/c/d"]);
    committed(await commitFiles(branch, { deletes: ["a/b", "a/c/d"], puts: { a: "3" } }));
    expect(await listed(branch)).toEqual(["a"]);
  });

  test("a commit that leaves part of the directory is refused, and changes nothing", async () => {
    const branch = await freshBranch();
    committed(await commitFiles(branch, { puts: { "a/b": "1", "a/c": "2" } }));
    expect(await commitFiles(branch, { deletes: ["a/b"], puts: { a: "3" } })).toEqual(conflict("a", "a/c"));
    expect(await listed(branch)).toEqual(["a/b", "a/c"]);
  });

  test("two operations of one commit may not conflict", async () => {
    const branch = await freshBranch();
    expect(await commitFiles(branch, { puts: { a: "1", "a/b/c": "2" } })).toEqual(conflict("a/b/c", "a"));
    expect(await commitFiles(branch, { puts: { "x/y": "1", x: "2" } })).toEqual(conflict("x/y", "x"));
  });

  test("a file that is replaced may not become a parent in the same commit", async () => {
    const branch = await freshBranch();
    await put(branch, "a/b");
    expect(await commitFiles(branch, { puts: { "a/b": "new", a: "file" } })).toEqual(conflict("a/b", "a"));
  });
});

describe("many at once", () => {
  test("of 50 parallel puts none is lost, and each is a commit of its own", async () => {
    const branch = await freshBranch();
    const commits = await Promise.all(Array.from({ length: 50 }, (_, n) => put(branch, `f${n}`)));
    expect(new Set(commits).size).toBe(50);
    expect(await listed(branch)).toHaveLength(50);
    const { events } = await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 100 });
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
  });

  test("parallel puts to one path leave one of them whole, the one of the last commit", async () => {
    const branch = await freshBranch();
    const texts = Array.from({ length: 20 }, (_, n) => `text ${n}`);
    const commits = await Promise.all(texts.map((text) => put(branch, "a", text)));
    const newest = commits.indexOf(commits.toSorted().at(-1) ?? null);
    expect(await branch.files.read({ path: "a" })).toMatchObject(inline(texts[newest] ?? ""));
  });

  test("a put that is refused does not harm those that share its transaction", async () => {
    const branch = await freshBranch();
    await put(branch, "dir/file");
    const paths = ["a", "dir", "b", "bad//path", "c", "dir/file/below"];
    const answers = await Promise.all(
      paths.map((path) => branch.files.put({ path, content: inline(path), attributes: {} })),
    );
    expect(answers.map((answer) => (answer.ok ? "made" : answer.reason))).toEqual([
      "made",
      "path-conflict",
      "made",
      "bad-path",
      "made",
      "path-conflict",
    ]);
    expect(await listed(branch)).toEqual(["a", "b", "c", "dir/file"]);
  });

  test("a put that the database can't take does not harm those that share its transaction", async () => {
    const branch = await freshBranch();
    await inObject(branch, async (instance) => {
      const tooLarge = new Uint8Array(8 * 1024 * 1024);
      const large = { ...inline("large"), body: { kind: "inline" as const, bytes: tooLarge } };
      const puts = [inline("1"), inline("2"), large, inline("3")].map((content, n) =>
        instance.files.put({ path: `f${n}`, content, attributes: {} }),
      );
      const settled = await Promise.allSettled(puts);
      expect(settled.map(({ status }) => status)).toEqual([
        "fulfilled",
        "fulfilled",
        "rejected",
        "fulfilled",
      ]);
    });
    expect(await listed(branch)).toEqual(["f0", "f1", "f3"]);
    expect(await put(branch, "f4")).not.toBeNull();
    // What was in memory of the commits that were undone with it is forgotten: none has a number.
    const seqs = await inObject(branch, (_, { storage }) =>
      storage.sql.exec("SELECT seq FROM commits ORDER BY seq").toArray(),
    );
    expect(seqs.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
  });
});

test("nothing is named that is not there: the transaction that would is undone", async () => {
  const branch = await freshBranch();
  await put(branch, "a");
  await inObject(branch, (_, { storage }) => {
    const ledger = new Ledger(storage, { almostFull() {} });
    const { digest, size } = inline("never brought");
    const naming = () =>
      ledger.transaction(() => {
        storage.sql.exec("UPDATE files SET died = 2 WHERE path = 'a'");
        ledger.contents.keep({ digest, size, gen: 1 }, 1);
      });
    expect(naming).toThrow(/is not there/);
  });
  expect(await listed(branch)).toEqual(["a"]);
});
