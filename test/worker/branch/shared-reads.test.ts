import { env, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Branch } from "../../../worker/branch/branch.ts";
import type { FileList, FileRead, ListFiles, ReadFile } from "../../../worker/branch/contract/files.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { readFile } from "../../../worker/branch/read/file.ts";
import { listFiles } from "../../../worker/branch/read/tree.ts";
import { listVersions } from "../../../worker/branch/read/versions.ts";
import {
  type BranchRecord,
  type Listing,
  ReadCache,
  type SharedReads,
  sharedReads,
} from "../../../worker/branch/tree/read-cache.ts";
import { type Env, readConfig } from "../../../worker/env.ts";
import type { Changes } from "../../../worker/objects/transaction.ts";
import { freshBranch, put, startOpenCommit } from "./support.ts";

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

  const find = (path: string, asked: Partial<ReadFile> = {}) => sharedReads(BUCKET).read({ path, ...asked });

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

  describe("so is a page of a listing", () => {
    const all: Listing<"files"> = { of: "files", prefix: "", limit: 1000 };
    const page = (...paths: string[]): FileList => {
      const entries = paths.map((path) => ({ kind: "prefix" as const, path }));
      return { ok: true, entries, truncated: false, next: null, modifiedAt: 7 };
    };

    /** As an object that lists twice. */
    function list(cache: ReadCache, listing = all, answered = page("a/"), as = record): void {
      for (let times = 0; times < 2; times++) cache.publishPage(as, listing, answered);
    }

    const findPage = (asked: Partial<Listing<"files">> = {}) =>
      sharedReads(BUCKET).page({ ...all, ...asked });

    test("once it was asked for again, and not when it was asked for once", () => {
      const cache = sharing();
      cache.publishPage(record, all, page("a/"));
      expect(findPage()).toBeUndefined();
      cache.publishPage(record, all, page("a/"));
      expect(findPage()).toEqual(page("a/"));
    });

    test("and no other one", () => {
      const cache = sharing();
      const others: Partial<Listing<"files">>[] = [
        ...[{ prefix: "a" }, { delimiter: "/" as const }, { after: "a" }, { limit: 999 }],
        ...[{ modified: "file" as const }, { modified: "branch" as const }],
      ];
      for (const [n, other] of others.entries()) list(cache, { ...all, ...other }, page(`${n}/`));
      expect(findPage()).toBeUndefined();
      for (const [n, other] of others.entries()) expect(findPage(other)).toEqual(page(`${n}/`));
      expect(sharedReads(BUCKET).page({ of: "versions", prefix: "a", limit: 1000 })).toBeUndefined();
    });

    test("until anything is written, of whichever path", () => {
      for (const changes of ["paths", "anything"] as const) {
        const cache = sharing();
        list(cache);
        cache.withdraw(changes);
        // The branch has its record again, by a read, and the page was asked for once since.
        answer(cache, "a");
        expect(findPage()).toBeUndefined();
        cache.publishPage(record, all, page("b/"));
        expect(findPage()).toBeUndefined();
        cache.publishPage(record, all, page("b/"));
        expect(findPage()).toEqual(page("b/"));
      }
    });

    test("to somebody without a key only while the branch is public", () => {
      const cache = sharing();
      list(cache);
      expect(findPage({ publicOnly: true })).toBeUndefined();
      list(cache, all, page("a/"), { ...record, isPublic: true });
      expect(findPage({ publicOnly: true })).toBeDefined();
    });

    test("of the newest instance alone", () => {
      const old = sharing();
      list(old);
      sharing();
      expect(findPage()).toBeUndefined();
      list(old);
      expect(findPage()).toBeUndefined();
    });

    test("unless it takes too much", () => {
      const cache = new ReadCache();
      cache.share(BUCKET);
      const long = page(...Array.from({ length: 1000 }, (_, n) => `${n}`.padEnd(100)));
      list(cache, all, long);
      expect(findPage()).toEqual(long);
      list(cache, all, page(...Array.from({ length: 1000 }, (_, n) => `${n}`.padEnd(300))));
      expect(findPage()).toBeUndefined();
    });

    test("and takes its bytes from what all branches may keep", () => {
      const cache = sharing();
      // Each counts for 456 kB, and 64 MiB is what there is.
      const long = page(...Array.from({ length: 1000 }, (_, n) => `${n}/`.padEnd(200)));
      for (let n = 0; n < 160; n++) list(cache, { ...all, prefix: `${n}` }, long);
      expect(findPage({ prefix: "0" })).toBeUndefined();
      expect(findPage({ prefix: "159" })).toEqual(long);
    });
  });
});

describe("an object shares what it reads", () => {
  /** Does something with a ledger over the database of a branch that has a file `a`. */
  async function withLedger(
    work: (ledger: Ledger, find: () => ReturnType<SharedReads["read"]>, openCommit: string) => Promise<void>,
  ): Promise<void> {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    const openCommit = await startOpenCommit(branch);
    await runInDurableObject(branch, async (_: Branch, { storage }) => {
      const ledger = new Ledger(storage);
      ledger.reads.share(BUCKET);
      await work(ledger, () => sharedReads(BUCKET).read({ path: "a" }), openCommit);
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
      listTwice(ledger);
      expect([find(), findList()]).toEqual([undefined, undefined]);
    });
  });

  const ALL = { prefix: "", limit: 10 };
  const findList = () => sharedReads(BUCKET).page({ of: "files", ...ALL });
  const findVersions = () => sharedReads(BUCKET).page({ of: "versions", ...ALL });
  /** Answers the last one. */
  function listTwice(ledger: Ledger, more: Partial<ListFiles> = {}) {
    listFiles(ledger, { ...ALL, ...more });
    return listFiles(ledger, { ...ALL, ...more });
  }

  test("of listings, too, once all that it wrote is on the disk, and until the next transaction", async () => {
    await withLedger(async (ledger) => {
      ledger.transaction(() => {}, "paths");
      listTwice(ledger);
      expect(findList()).toBeUndefined();
      await ledger.durable();
      expect(findList()).toBeUndefined();
      const answer = listTwice(ledger);
      expect(answer).toMatchObject({ ok: true, entries: [{ path: "a" }] });
      expect(findList()).toEqual(answer);
      ledger.transaction(() => {}, "paths");
      expect(findList()).toBeUndefined();
      await ledger.durable();
      // The branch has its record again, by a read.
      readFile(ledger, { path: "a" });
      expect(findList()).toBeUndefined();
    });
  });

  test("of listings of versions", async () => {
    await withLedger(async (ledger) => {
      await ledger.durable();
      listVersions(ledger, ALL);
      const answer = listVersions(ledger, ALL);
      expect(answer).toMatchObject({ ok: true, entries: [{ path: "a" }] });
      expect(findVersions()).toEqual(answer);
      ledger.transaction(() => {}, "paths");
      expect(findVersions()).toBeUndefined();
    });
  });

  test("and of none of a commit or an open commit", async () => {
    await withLedger(async (ledger, _, openCommit) => {
      await ledger.durable();
      const commit = ledger.live?.head.id ?? "";
      for (const view of [{ commit }, { openCommit: commit }, { openCommit }]) {
        expect(listTwice(ledger, view)).toMatchObject({ ok: true });
        expect(findList()).toBeUndefined();
      }
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
