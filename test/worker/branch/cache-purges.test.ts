import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { ulid } from "ulid";
import { describe, expect, test } from "vitest";
import { manifestBlobName, newWrite, parseBlobName } from "../../../worker/blobs/blob-name.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import type { UnwantedBlob } from "../../../worker/blobs/port.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { blobReaper } from "../../../worker/branch/work/blob-reaper.ts";
import { cachePurger } from "../../../worker/branch/work/cache-purger.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import { MemoryCache } from "../blobs/memory-cache.ts";
import { MemoryStore } from "../blobs/memory-store.ts";
import { forkOf } from "./fork-support.ts";
import { erase, forkHoldsOf } from "./on-loan-support.ts";
import {
  type BranchStub,
  begin,
  blobNameIn,
  chunked,
  committed,
  completion,
  freshBranch,
  freshBucket,
} from "./support.ts";

const MINUTE_MS = 60_000;
const AGAIN_MS = 10 * MINUTE_MS;

/** A content in one blob of a branch, and what copies of that are tagged with. */
async function blobIn(
  branch: BranchStub,
  text: string,
): Promise<{ content: Content; blob: string; tag: string }> {
  const blob = await blobNameIn(branch, text);
  return { content: chunked(text, [blob]), blob, tag: parseBlobName(blob)?.write ?? "" };
}

async function uidOf(branch: BranchStub): Promise<string> {
  return parseBlobName(await blobNameIn(branch, ""))?.uid ?? "";
}

function filesOf(branch: BranchStub): Promise<unknown> {
  return runInDurableObject(
    branch,
    (_, { storage: { sql } }) => sql.exec("SELECT count(*) AS n FROM files").one().n,
  );
}

/** The two loops of an object by a clock of their own, and the cache that they purge. */
interface Loops {
  readonly calls: BranchApi;
  readonly ledger: Ledger;
  readonly cache: MemoryCache;
  readonly sql: SqlStorage;
  /** What was purged by now, call by call; and from now on nothing. */
  purged(): string[][];
  /** The clock goes on, and what is due is done. */
  passes(ms: number): Promise<void>;
  /** Blobs whose time has come are deleted. */
  reaps(): Promise<void>;
}

function withLoops<T>(branch: BranchStub, work: (loops: Loops) => Promise<T>, hasCopies = true): Promise<T> {
  return runInDurableObject(branch, async (object, { storage }) => {
    const cache = new MemoryCache(new MemoryStore());
    const ledger = new Ledger(storage, { almostFull() {} });
    let now = Date.now();
    const remove = async (unwanted: readonly UnwantedBlob[]) => ({
      gone: unwanted.map(({ blob }) => blob),
      held: [],
    });
    const reaper = blobReaper({ ledger, now: () => now, remove, hasCopies: () => hasCopies });
    const purger = cachePurger({ ledger, now: () => now, purge: (tags) => cache.purge(tags) });
    return await work({
      calls: clientOf<BranchApi>(object as never),
      ...{ ledger, cache, sql: storage.sql },
      purged: () => cache.purges.splice(0),
      async passes(ms) {
        now += ms;
        while ((purger.due() ?? Number.POSITIVE_INFINITY) <= now && (await purger.step()) === true);
      },
      async reaps() {
        ledger.transaction(() => ledger.contents.removeDead(now));
        storage.sql.exec("UPDATE pending_deletions SET due = 1");
        while (((await reaper.step()) as unknown) === "next alarm");
      },
    });
  });
}

/** A branch with a file `a` in a blob of its own. */
async function withFile(text = "one") {
  const bucket = freshBucket();
  const branch = await freshBranch(bucket);
  const { content, blob, tag } = await blobIn(branch, text);
  const version = committed(await branch.files.put({ path: "a", content, attributes: {} })) ?? "";
  return { bucket, branch, content, blob, tag, version };
}

describe("copies of erased bytes", () => {
  test("are forgotten when the blobs are deleted, and again ten minutes later", async () => {
    const { branch, version, tag, blob } = await withFile();
    await branch.erasures.erase({ versions: [{ path: "a", version }] });
    await withLoops(branch, async ({ cache, purged, passes, reaps, ledger }) => {
      await passes(0);
      // The blob is still there for readers.
      expect(purged()).toEqual([]);
      cache.copies.set(blob, new Uint8Array(1));
      await reaps();
      await passes(0);
      expect([purged(), cache.copies.size]).toEqual([[[tag]], 0]);
      // A read that had begun puts one there again.
      cache.copies.set(blob, new Uint8Array(1));
      await passes(AGAIN_MS - 1);
      expect([purged(), cache.copies.size]).toEqual([[], 1]);
      await passes(1);
      expect([purged(), cache.copies.size]).toEqual([[[tag]], 0]);
      expect(ledger.cachePurges.nextDue()).toBeUndefined();
    });
  });

  test("are asked for until the caches confirm it", async () => {
    const { branch, version, tag } = await withFile();
    await branch.erasures.erase({ versions: [{ path: "a", version }] });
    await withLoops(branch, async ({ cache, purged, passes, reaps, ledger }) => {
      await reaps();
      cache.isAway = true;
      for (let tries = 0; tries < 3; tries++) await expect(passes(MINUTE_MS)).rejects.toThrow("away");
      cache.isAway = false;
      await passes(0);
      expect(purged()).toEqual([[tag], [tag], [tag], [tag]]);
      cache.isAway = true;
      await expect(passes(AGAIN_MS)).rejects.toThrow("away");
      cache.isAway = false;
      await passes(0);
      expect(purged()).toEqual([[tag], [tag]]);
      expect(ledger.cachePurges.nextDue()).toBeUndefined();
    });
  });

  test("are purged once if that is late enough for both", async () => {
    const { branch, version, tag } = await withFile();
    await branch.erasures.erase({ versions: [{ path: "a", version }] });
    await withLoops(branch, async ({ purged, passes, reaps, ledger }) => {
      await reaps();
      await passes(AGAIN_MS);
      expect(purged()).toEqual([[tag]]);
      expect(ledger.cachePurges.nextDue()).toBeUndefined();
    });
  });

  test("are purged anew if blobs of the same write are deleted while they are purged", async () => {
    const { branch, version, tag } = await withFile();
    await branch.erasures.erase({ versions: [{ path: "a", version }] });
    await withLoops(branch, async ({ cache, purged, passes, reaps, ledger }) => {
      await reaps();
      const { purge } = cache;
      cache.purge = async (tags) => {
        cache.purge = purge;
        ledger.transaction(() => ledger.cachePurges.add([tag], Date.now()));
        await cache.purge(tags);
      };
      await passes(0);
      expect(purged()).toEqual([[tag], [tag]]);
      await passes(AGAIN_MS + MINUTE_MS);
      expect(purged()).toEqual([[tag]]);
    });
  });

  test("go also if something else had the bytes for a while, as a path or a fork", async () => {
    const { bucket, branch, content, version, tag } = await withFile();
    const there = committed(await branch.files.put({ path: "b", content, attributes: {} })) ?? "";
    await branch.erasures.erase({ versions: [{ path: "a", version }] });
    await withLoops(branch, async ({ purged, passes, reaps }) => {
      await reaps();
      await passes(0);
      expect(purged()).toEqual([]);
    });
    // The fork has them at a path of its own.
    const fork = await forkOf(bucket);
    const { digest, size } = content;
    const operations = [{ put: "c", digest, size }];
    const copy = committed(await fork.branch.files.commit({ operations })) ?? "";
    expect(await erase(bucket, [{ path: "b", version: there }])).toMatchObject({ ok: true });
    expect(await forkHoldsOf(branch)).toBe(1);
    await fork.branch.erasures.erase({ versions: [{ path: "c", version: copy }] });
    await expect.poll(() => forkHoldsOf(branch)).toBe(0);
    await withLoops(branch, async ({ purged, passes, reaps }) => {
      await reaps();
      await passes(0);
      expect(purged()).toEqual([[tag]]);
    });
  });

  test("of an upload in parts go with the parts, and those of a manifest by what it was written with", async () => {
    const branch = await freshBranch();
    const parts = [await blobIn(branch, "one"), await blobIn(branch, "two")];
    const uid = await uidOf(branch);
    const owner = { uid, upload: `master.data.${ulid()}`, write: newWrite() };
    const manifest = manifestBlobName({ digest: "ab".repeat(32), size: 1 }, owner);
    const upload = await begin(branch);
    const numbered = Object.fromEntries(parts.map(({ content }, index) => [index + 1, content]));
    for (const [number, content] of Object.entries(numbered)) {
      await branch.multipart.addPart({ upload, number: Number(number), content });
    }
    const completed = await branch.multipart.complete(completion(upload, numbered, manifest));
    if (!completed.ok) throw new Error(completed.reason);
    await branch.erasures.erase({ versions: [{ path: "big", version: completed.commit ?? "" }] });
    await withLoops(branch, async ({ purged, passes, reaps }) => {
      await reaps();
      await passes(0);
      const expected = [...parts.map(({ tag }) => tag), parseBlobName(manifest)?.write ?? ""];
      expect(purged().flat().sort()).toEqual(expected.sort());
    });
  });
});

describe("of other blobs that are deleted", () => {
  test("the copies stay: nothing names them, and they go by themselves", async () => {
    const { branch } = await withFile();
    await branch.settings.change({ keep: { commits: 1 } });
    await branch.files.commit({ operations: [{ delete: "a" }] });
    // The pass of history GC need not be waited for.
    await expect.poll(() => runDurableObjectAlarm(branch).then(() => filesOf(branch))).toBe(0);
    await withLoops(branch, async ({ purged, passes, reaps, sql }) => {
      await reaps();
      expect(sql.exec("SELECT count(*) AS n FROM pending_deletions").one().n).toBe(0);
      await passes(AGAIN_MS);
      expect(purged()).toEqual([]);
    });
  });

  test("of a deleted branch all copies are forgotten by one tag, each minute and ten minutes after the last", async () => {
    const { branch } = await withFile();
    const uid = await uidOf(branch);
    await branch.lifecycle.destroy();
    await withLoops(branch, async ({ purged, passes, ledger, reaps, sql }) => {
      sql.exec("DELETE FROM files");
      sql.exec("UPDATE contents SET refs = 0");
      await reaps();
      await passes(0);
      expect(purged()).toEqual([[uid]]);
      const more = () => ledger.transaction(() => ledger.cachePurges.add([uid], Date.now()));
      more();
      more();
      await passes(0);
      expect(purged()).toEqual([]);
      await passes(2 * MINUTE_MS);
      expect(purged()).toEqual([[uid]]);
      await passes(AGAIN_MS);
      expect(purged()).toEqual([[uid]]);
      expect(ledger.cachePurges.nextDue()).toBeUndefined();
    });
  });

  test("nothing is written down where there are no copies", async () => {
    const { branch, version } = await withFile();
    await branch.erasures.erase({ versions: [{ path: "a", version }] });
    await withLoops(
      branch,
      async ({ ledger, reaps }) => {
        await reaps();
        expect(ledger.cachePurges.nextDue()).toBeUndefined();
      },
      false,
    );
  });
});
