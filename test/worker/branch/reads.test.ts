import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { FileRead } from "../../../worker/branch/contract/files.ts";
import { type CachedRead, ReadCache } from "../../../worker/branch/tree/read-cache.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import {
  type BranchStub,
  begin,
  chunked,
  committed,
  completion,
  freshBranch,
  inline,
  inObject,
  put,
  randomNumbers,
} from "./support.ts";

async function text(branch: BranchStub, path: string): Promise<string | null> {
  const read = await branch.files.read({ path });
  if (!read.ok) return null;
  return read.body.kind === "inline" ? new TextDecoder().decode(read.body.bytes) : read.body.kind;
}

/** How many statements a call runs inside of the object. */
function statementsOf(branch: BranchStub, call: (object: BranchApi) => Promise<unknown>): Promise<number> {
  return inObject(branch, async (object) => {
    const statements = vi.spyOn(Sql.prototype, "execute");
    try {
      await call(object);
      return statements.mock.calls.length;
    } finally {
      statements.mockRestore();
    }
  });
}

describe("whose time and version a read answers", () => {
  test("at HEAD: the time is the branch's or the file's own, and the version always the commit that wrote it", async () => {
    const branch = await freshBranch();
    const first = await branch.files.put({ path: "a", content: inline("a"), attributes: {} });
    const last = await branch.files.put({ path: "b", content: inline("b"), attributes: {} });
    if (!first.ok || !last.ok) throw new Error("refused");
    for (let times = 0; times < 2; times++) {
      const { commit } = first;
      expect(await branch.files.read({ path: "a" })).toMatchObject({ commit, modifiedAt: last.modifiedAt });
      expect(await branch.files.read({ path: "a", modified: "file" })).toMatchObject({
        commit,
        modifiedAt: first.modifiedAt,
      });
    }
  });

  test("at a commit: that one is the version, and the time is its own or the file's", async () => {
    const branch = await freshBranch();
    const first = await branch.files.put({ path: "a", content: inline("a"), attributes: {} });
    const last = await branch.files.put({ path: "b", content: inline("b"), attributes: {} });
    if (!first.ok || !last.ok || last.commit === null) throw new Error("refused");
    const { commit } = last;
    expect(await branch.files.read({ path: "a", commit })).toMatchObject({
      commit,
      modifiedAt: last.modifiedAt,
    });
    expect(await branch.files.read({ path: "a", commit, modified: "file" })).toMatchObject({
      commit,
      modifiedAt: first.modifiedAt,
    });
  });

  test("a listing has the files' own times if asked, at HEAD and at a commit", async () => {
    const branch = await freshBranch();
    const times: number[] = [];
    for (const path of ["a", "b", "d/x", "e/"]) {
      const answer = await branch.files.put({
        path,
        content: inline(path.endsWith("/") ? "" : path),
        attributes: {},
      });
      if (answer.ok) times.push(answer.modifiedAt);
    }
    const { head } = (await branch.lifecycle.status()) as { head: string };
    for (const commit of [undefined, head]) {
      const request = { prefix: "", limit: 10, ...(commit && { commit }) };
      const own = await branch.files.list({ ...request, modified: "file" });
      expect(own.ok && own.entries.map((entry) => "modifiedAt" in entry && entry.modifiedAt)).toEqual(times);
      const folded = await branch.files.list({ ...request, modified: "file", delimiter: "/", prefix: "d" });
      expect(folded).toMatchObject({ entries: [{ kind: "prefix", path: "d/" }] });
      const plain = await branch.files.list(request);
      expect(plain.ok && plain.entries.some((entry) => "modifiedAt" in entry)).toBe(false);
    }
  });
});

describe("attributes", () => {
  test("come back as they were said, whatever order they were said in", async () => {
    const branch = await freshBranch();
    const attributes = {
      expires: "x",
      contentLanguage: "de",
      contentEncoding: "gzip",
      contentDisposition: "inline",
      cacheControl: "no-store",
      contentType: "a/b",
      metadata: { b: "2", a: "1" },
      checksum: { value: "AAAA", type: "FULL_OBJECT", algorithm: "CRC32" },
    } as const;
    committed(await branch.files.put({ path: "a", content: inline("a"), attributes }));
    expect(await branch.files.read({ path: "a" })).toMatchObject({ attributes });
    const reversed = Object.fromEntries(Object.entries(attributes).toReversed());
    expect(
      committed(await branch.files.put({ path: "a", content: inline("a"), attributes: reversed })),
    ).toBeNull();
    const other = { ...attributes, cacheControl: "private" };
    expect(
      committed(await branch.files.put({ path: "a", content: inline("a"), attributes: other })),
    ).not.toBeNull();
  });
});

describe("a small file that was read before", () => {
  test("is read from memory, and one in blobs by one statement", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    await branch.files.put({ path: "b", content: chunked("large", ["b/1"]), attributes: {}, upload });
    expect(await statementsOf(branch, (object) => object.files.read({ path: "a" }))).toBe(1);
    expect(await statementsOf(branch, (object) => object.files.read({ path: "a" }))).toBe(0);
    expect(await statementsOf(branch, (object) => object.files.read({ path: "b" }))).toBe(1);
    expect(await statementsOf(branch, (object) => object.files.read({ path: "b" }))).toBe(1);
  });

  test("is what was written since, by whichever way", async () => {
    const branch = await freshBranch();
    await put(branch, "big", "1");
    expect(await text(branch, "big")).toBe("1");
    await put(branch, "big", "2");
    expect(await text(branch, "big")).toBe("2");
    await branch.files.commit({ operations: [{ delete: "big" }] });
    expect(await text(branch, "big")).toBeNull();
    await put(branch, "other", "3");
    const { digest, size } = inline("3");
    await branch.files.commit({ operations: [{ put: "big", digest, size }] });
    expect(await text(branch, "big")).toBe("3");
    const upload = await begin(branch);
    const part = chunked("part", ["b/1"]);
    await branch.multipart.addPart({ upload, number: 1, content: part });
    await branch.multipart.complete(completion(upload, { 1: part }));
    expect(await text(branch, "big")).toBe("chunks");
  });

  test("is gone with its branch, and after a restart as it was left", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "old");
    expect(await text(branch, "a")).toBe("old");
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    expect(await text(branch, "a")).toBeNull();
    await put(branch, "a", "new");
    expect(await text(branch, "a")).toBe("new");
    await evictDurableObject(branch);
    expect(await text(branch, "a")).toBe("new");
  });

  test("a put that failed leaves what was there", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    expect(await text(branch, "a")).toBe("1");
    await inObject(branch, async (object, { storage }) => {
      storage.sql.exec(
        "CREATE TRIGGER failing BEFORE INSERT ON commits BEGIN SELECT RAISE(ABORT, 'failing'); END",
      );
      await expect(object.files.put({ path: "a", content: inline("2"), attributes: {} })).rejects.toThrow();
      storage.sql.exec("DROP TRIGGER failing");
    });
    expect(await text(branch, "a")).toBe("1");
  });

  test("random reads and writes between two branches never see what is stale", async () => {
    const branches = [await freshBranch(), await freshBranch()];
    const written = branches.map(() => new Map<string, string>());
    const random = randomNumbers(7);
    for (let n = 0; n < 300; n++) {
      const which = Math.floor(random() * 2);
      const [branch, files] = [branches[which] as BranchStub, written[which] as Map<string, string>];
      const path = `f${Math.floor(random() * 5)}`;
      const choice = random();
      if (choice < 0.25) {
        await put(branch, path, `${n}`);
        files.set(path, `${n}`);
      } else if (choice < 0.35) {
        await branch.files.commit({ operations: [{ delete: path }] });
        files.delete(path);
      } else expect(await text(branch, path)).toBe(files.get(path) ?? null);
    }
  });
});

describe("the cache of reads", () => {
  const read = (size: number): CachedRead =>
    ({ ok: true, size, body: { kind: "inline", bytes: new Uint8Array(size) } }) as FileRead as CachedRead;

  test("forgets what was used longest ago once it is full", () => {
    const cache = new ReadCache(12 * 1024);
    for (const path of ["a", "b"]) cache.set(1, { path, read: read(4096), bytes: 4096 });
    cache.get(1, "a");
    cache.set(1, { path: "c", read: read(4096), bytes: 4096 });
    expect(["a", "b", "c"].map((path) => cache.get(1, path) !== undefined)).toEqual([true, false, true]);
  });

  test("knows generations and owners apart", () => {
    const [cache, other] = [new ReadCache(), new ReadCache()];
    cache.set(1, { path: "a", read: read(1), bytes: 1 });
    expect(cache.get(2, "a")).toBeUndefined();
    expect(other.get(1, "a")).toBeUndefined();
    other.drop("a");
    expect(cache.get(1, "a")).toBeDefined();
    cache.drop("a");
    expect(cache.get(1, "a")).toBeUndefined();
  });

  test("keeps nothing that is larger than itself", () => {
    const cache = new ReadCache(2048);
    cache.set(1, { path: "a", read: read(4096), bytes: 4096 });
    expect(cache.get(1, "a")).toBeUndefined();
  });
});
