import { env, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Branch } from "../../../worker/branch/branch.ts";
import type { FileRead, ReadFile } from "../../../worker/branch/contract/files.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { readFile } from "../../../worker/branch/read/file.ts";
import { type BranchRecord, ReadCache, sharedRead } from "../../../worker/branch/tree/read-cache.ts";
import { type Env, readConfig } from "../../../worker/env.ts";
import type { Changes } from "../../../worker/objects/transaction.ts";
import { freshBranch, put } from "./support.ts";

const BUCKET = "master.shared";

afterEach(() => {
  // What a test shared is found by no other one.
  new ReadCache(0).share(BUCKET);
});

describe("what an object has read is answered without a call", () => {
  const record: BranchRecord = { gen: 1, modifiedAt: 7, modified: null, isPublic: false };
  const file = (size: number, kind = "inline"): FileRead =>
    ({ ok: true, kind: "file", size, modifiedAt: 5, body: { kind } }) as unknown as FileRead;

  function sharing(): ReadCache {
    const cache = new ReadCache(100_000);
    cache.share(BUCKET);
    return cache;
  }

  /** As an object that reads a path. */
  function answer(cache: ReadCache, path: string, read: FileRead | null = file(1), as = record): void {
    cache.set(as.gen, { path, read, bytes: read?.size ?? 0 });
    cache.publish(as, path);
  }

  const find = (path: string, asked: Partial<ReadFile> = {}) => sharedRead(BUCKET, { path, ...asked });

  test("with the time of the newest commit, or that of the file if the branch or else the gateway says so", () => {
    const cache = sharing();
    answer(cache, "a");
    expect(find("a")).toEqual({ ...file(1), modifiedAt: 7 });
    expect(find("a", { modified: "file" })).toEqual(file(1));
    answer(cache, "a", file(1), { ...record, modified: "file" });
    expect(find("a")).toEqual(file(1));
    answer(cache, "a", file(1), { ...record, modified: "branch" });
    expect(find("a", { modified: "file" })).toMatchObject({ modifiedAt: 7 });
  });

  test("also that nothing is there, and what lies in blobs; but not what was not read", () => {
    const cache = sharing();
    answer(cache, "none", null);
    answer(cache, "large", file(9, "chunks"));
    expect(find("none")).toEqual({ ok: false, reason: "no-such-file" });
    expect(find("large")).toMatchObject({ ok: true, size: 9 });
    expect(find("other")).toBeUndefined();
    // The object itself goes by small files alone.
    expect([cache.get(1, "none"), cache.get(1, "large")]).toEqual([undefined, undefined]);
  });

  test("until the path is written, or anything of the branch without a word of which paths", () => {
    const cache = sharing();
    for (const path of ["a", "b"]) answer(cache, path);
    cache.drop("a");
    cache.withdraw("paths");
    expect([find("a"), find("b")]).toEqual([undefined, undefined]);
    answer(cache, "c");
    expect(find("a")).toBeUndefined();
    expect(find("b")).toBeDefined();
    cache.withdraw("anything");
    answer(cache, "c");
    expect(find("b")).toBeUndefined();
  });

  test("to somebody without a key only while the branch is public", () => {
    const cache = sharing();
    answer(cache, "a");
    expect(find("a", { publicOnly: true })).toBeUndefined();
    answer(cache, "a", file(1), { ...record, isPublic: true });
    expect(find("a", { publicOnly: true })).toBeDefined();
  });

  test("of no other life of the branch", () => {
    const cache = sharing();
    answer(cache, "a");
    answer(cache, "b", file(1), { ...record, gen: 2 });
    expect(find("a")).toBeUndefined();
    expect(find("b")).toBeDefined();
  });

  test("of the newest instance alone, whatever an older one still does", () => {
    const old = sharing();
    answer(old, "a");
    const young = sharing();
    expect(find("a")).toBeUndefined();
    answer(old, "a");
    expect(find("a")).toBeUndefined();
    answer(young, "b");
    expect(find("b")).toBeDefined();
  });

  test("unless it takes too much", () => {
    const cache = sharing();
    answer(cache, "a");
    answer(cache, "a", { ...file(1e6, "chunks") });
    expect(find("a")).toBeUndefined();
  });
});

describe("an object shares what it reads", () => {
  /** Does something with a ledger over the database of a branch that has a file `a`. */
  async function withLedger(
    work: (ledger: Ledger, find: () => ReturnType<typeof sharedRead>) => Promise<void>,
  ): Promise<void> {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    await runInDurableObject(branch, async (_: Branch, { storage }) => {
      const ledger = new Ledger(storage);
      ledger.reads.share(BUCKET);
      await work(ledger, () => sharedRead(BUCKET, { path: "a" }));
    });
  }

  const change = (ledger: Ledger, changes?: Changes) =>
    ledger.transaction(
      () => void ledger.sql.run`UPDATE files SET attributes = ${'{"contentType":"x/y"}'}`,
      changes,
    );

  test("once all that it wrote is on the disk, and not before", async () => {
    await withLedger(async (ledger, find) => {
      ledger.transaction(() => {}, "paths");
      const answer = readFile(ledger, { path: "a" });
      expect(find()).toBeUndefined();
      await ledger.durable();
      expect(find()).toBeUndefined();
      expect(readFile(ledger, { path: "a" })).toEqual(answer);
      expect(find()).toEqual(answer);
    });
  });

  test("until a transaction, and until that one is on the disk", async () => {
    await withLedger(async (ledger, find) => {
      await ledger.durable();
      readFile(ledger, { path: "a" });
      expect(find()).toBeDefined();
      const durable = ledger.transaction(() => {
        // A write that comes while the disk has the one before is not on it yet.
        return { is: ledger.durable() };
      }, "paths");
      expect(find()).toBeUndefined();
      await durable.is;
      readFile(ledger, { path: "a" });
      expect(find()).toBeUndefined();
    });
  });

  test("anew after a transaction that may have changed anything", async () => {
    await withLedger(async (ledger, find) => {
      await ledger.durable();
      readFile(ledger, { path: "a" });
      change(ledger);
      await ledger.durable();
      // The branch has its record again, by another read.
      readFile(ledger, { path: "b" });
      expect(find()).toBeUndefined();
    });
  });

  test("anew once somebody wrote a file again as it is", async () => {
    await withLedger(async (ledger, find) => {
      await ledger.durable();
      readFile(ledger, { path: "a" });
      const gen = ledger.live?.gen ?? 0;
      ledger.transaction(() => ledger.files.renew("a", { gen, now: Date.now() + 1000 }), "paths");
      await ledger.durable();
      readFile(ledger, { path: "b" });
      expect(find()).toBeUndefined();
    });
  });

  test("and not while a large commit is applied", async () => {
    await withLedger(async (ledger, find) => {
      await ledger.durable();
      const applying = { openCommit: 1, id: "large", gen: 1, seq: null, isReverting: false };
      vi.spyOn(ledger.applying, "get").mockReturnValue(applying);
      readFile(ledger, { path: "a" });
      expect(find()).toBeUndefined();
    });
  });
});

test("entry and objects share reads only where there is a host, and that is on: on Cloudflare there is none", () => {
  const shares = (bindings: object) => {
    const read = readConfig({ ...env, ...bindings } as unknown as Env);
    return read.ok && read.config.sharesReads;
  };
  // As wrangler.toml has it, which is what is deployed.
  expect("HOST" in env).toBe(false);
  expect(shares({})).toBe(false);
  expect(shares({ SLUICE_HOST_TOKEN: "x".repeat(20) })).toBe(false);
  expect(shares({ HOST: {} })).toBe(true);
  expect(shares({ HOST: {}, SLUICE_READ_MEMORY: "off" })).toBe(false);
});
