// @module-tag rest
import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { chunkBlobName, manifestBlobName, manifestBytes, newWrite } from "../../../worker/blobs/blob-name.ts";
import type { Chunk, Content } from "../../../worker/blobs/content.ts";
import { NotDeletedError } from "../../../worker/blobs/port.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import type { Branch } from "../../../worker/branch/branch.ts";
import { UPLOAD_LEASE_MS } from "../../../worker/branch/contract/uploads.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { BETWEEN_SWEEPS_MS, SWEEP_AFTER_MS } from "../../../worker/branch/uploads/sweep-store.ts";
import { orphanScan } from "../../../worker/branch/work/orphan-scan.ts";
import { atRest, forkOf } from "./fork-support.ts";
import { crashAt, restarted } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  committed,
  completion,
  freshBranch,
  freshBucket,
  inline,
  ledgerOf,
  startOpenCommit,
} from "./support.ts";

const MINUTE_MS = 60_000;
const store = new R2BlobStore(env.BLOBS);

let bucket = "";
let branch: BranchStub;
let uid = "";

beforeEach(async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  bucket = freshBucket();
  branch = await freshBranch(bucket);
  uid = await uidOf(branch);
});

afterEach(() => {
  vi.restoreAllMocks();
});

async function uidOf(of: BranchStub): Promise<string> {
  const status = await of.lifecycle.status();
  if (!status.ok) throw new Error(status.reason);
  return status.uid;
}

async function open(of: BranchStub = branch, lease?: string): Promise<string> {
  const opened = await of.uploads.open(lease === undefined ? {} : { lease });
  if (!opened.ok) throw new Error(opened.reason);
  return opened.upload;
}

let texts = 0;

/** A blob that an upload writes. */
async function blobOf(upload: string, { write = newWrite(), of = uid } = {}): Promise<string> {
  const { digest, size } = inline(`blob ${++texts}`);
  const blob = chunkBlobName({ digest, size }, { uid: of, upload, write });
  await store.put(blob, new Uint8Array(size));
  return blob;
}

/** What a body leaves that was cut off when the gateway died, once its upload has run out. */
async function orphan(of: BranchStub = branch): Promise<string> {
  const upload = await open(of);
  const blob = await blobOf(upload, { of: await uidOf(of) });
  await runInDurableObject(of, (_, { storage: { sql } }) => {
    sql.exec("DELETE FROM uploads WHERE id = ?", upload);
  });
  return blob;
}

/** A content in one blob, as a body brings it. */
async function brought(upload: string): Promise<{ content: Content; blob: string }> {
  const { digest, size } = inline(`content ${++texts}`);
  const blob = await blobOf(upload);
  const chunks = [{ blob, offset: 0, length: size, leaves: null }];
  return { content: { digest, size, body: { kind: "chunks", chunks } }, blob };
}

/** A content with a manifest of one page. */
async function broughtLarge(
  upload: string,
  chunks?: readonly Chunk[],
): Promise<{ content: Content; blobs: string[] }> {
  const { digest, size } = inline(`large ${++texts}`);
  const write = newWrite();
  const own = chunks ? [] : [await blobOf(upload, { write }), await blobOf(upload, { write })];
  const list = chunks ?? own.map((blob) => ({ blob, offset: 0, length: 1, leaves: null }));
  const page = await json(upload, { write, value: list });
  const root = await json(upload, { write, value: [{ ...page, size }] });
  return {
    content: { digest, size, body: { kind: "manifest", ...root } },
    blobs: [...own, page.blob, root.blob],
  };
}

async function json(upload: string, { write, value }: { write: string; value: unknown }) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const { digest } = inline(`json ${++texts}`);
  const blob = manifestBlobName({ digest, size: bytes.length }, { uid, upload, write });
  await store.put(blob, bytes);
  return { blob, length: bytes.length };
}

async function stored(of: string = uid): Promise<string[]> {
  const { objects } = await env.BLOBS.list({ prefix: "b/" });
  return objects.map(({ key }) => key).filter((key) => key.includes(`/${of}/`));
}

/** What a sweep of all generations found, when it is through. */
async function swept({ remove = true, of = branch } = {}) {
  const started = await of.admin.sweep({ remove });
  if (!started.ok) throw new Error(started.reason);
  for (;;) {
    const status = await of.admin.sweepStatus({ since: started.since });
    if (!status.ok) throw new Error(status.reason);
    const { done, found, seen } = status;
    if (done) return { found, seen };
    // It may be ringing by itself already.
    if (!(await runDurableObjectAlarm(of))) await scheduler.wait(1);
  }
}

/** Lets time pass until no sweep waits. The alarm may ring by itself meanwhile, and then goes on beside this. */
async function allSwept(): Promise<void> {
  await expect
    .poll(async () => {
      await letPass(["sweeps"], SWEEP_AFTER_MS);
      await runDurableObjectAlarm(branch);
      return (await waiting()).due;
    })
    .toBeNull();
}

/** Only rows that a sweep is still to look at, and the alarm. */
function waiting(of: BranchStub = branch): Promise<{ due: number | null; alarm: number | null }> {
  return runInDurableObject(of, async (_, { storage }) => {
    const { due } = storage.sql.exec("SELECT min(due) AS due FROM sweeps").one();
    return { due: due as number | null, alarm: await storage.getAlarm() };
  });
}

function letPass(tables: readonly string[], ms: number): Promise<void> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    for (const table of tables) sql.exec(`UPDATE ${table} SET due = due - ?`, ms);
  });
}

describe("a sweep", () => {
  test("removes what nothing names, and nothing that a file has", async () => {
    const upload = await open();
    const { content, blob } = await brought(upload);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    const lost = [await orphan(), await orphan()];
    expect((await stored()).sort()).toEqual([blob, ...lost].sort());
    expect(await swept()).toEqual({ found: 2, seen: 3 });
    expect(await stored()).toEqual([blob]);
  });

  test("that only counts tells what it would remove", async () => {
    const lost = await orphan();
    expect(await swept({ remove: false })).toEqual({ found: 1, seen: 1 });
    expect(await stored()).toEqual([lost]);
    expect(await swept()).toEqual({ found: 1, seen: 1 });
    expect(await stored()).toEqual([]);
  });

  test("that only counts removes nothing that was to be removed later, and leaves that to its time", async () => {
    const upload = await open();
    const lost = await blobOf(upload);
    await branch.uploads.abort({ upload, leaves: true });
    const { due } = await waiting();
    expect(await swept({ remove: false })).toEqual({ found: 1, seen: 1 });
    expect(await stored()).toEqual([lost]);
    expect((await waiting()).due).toBe(due);
    await letPass(["sweeps"], SWEEP_AFTER_MS);
    while ((await waiting()).due !== null) await runDurableObjectAlarm(branch);
    expect(await stored()).toEqual([]);
  });

  test("leaves what a content's manifest lists, its pages and itself, whoever owns the chunks", async () => {
    const upload = await open();
    const { content, blobs } = await broughtLarge(upload);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    const multipart = await begin(branch, { path: "b" });
    const { content: part, blob } = await brought(multipart);
    await branch.multipart.addPart({ upload: multipart, number: 1, content: part });
    const chunks = part.body.kind === "chunks" ? part.body.chunks : [];
    const whole = await broughtLarge(multipart, chunks);
    const named = completion(multipart, { 1: part });
    const made = await branch.multipart.complete({ ...named, content: { ...whole.content, keeps: [part] } });
    expect(made.ok).toBe(true);
    const lost = await orphan();
    expect(await swept()).toMatchObject({ found: 1 });
    expect(await stored()).toEqual([...blobs, blob, ...whole.blobs].sort());
    expect(await stored()).not.toContain(lost);
  });

  test("finds by reading manifests what was written apart from them", async () => {
    const upload = await open();
    const { content, blobs } = await broughtLarge(upload);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    const copy = await open();
    const chunk = blobs[0] ?? "";
    // As if the chunk had come by another write than the manifest that lists it.
    const other = await broughtLarge(copy, [{ blob: chunk, offset: 0, length: 1, leaves: null }]);
    committed(await branch.files.put({ path: "b", content: other.content, attributes: {}, upload: copy }));
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("DELETE FROM contents WHERE digest = unhex(?)", content.digest);
      sql.exec("DELETE FROM blobs WHERE name = ?", blobs.at(-1));
    });
    expect(await swept()).toMatchObject({ found: 3 });
    expect(await stored()).toEqual([chunk, ...other.blobs].sort());
  });

  test("knows a blob that is the whole of a content by the content's row, whichever blob brings the bytes again", async () => {
    const { digest, size } = inline(`whole ${++texts}`);
    const wholeIn = async (upload: string): Promise<{ content: Content; blob: string }> => {
      const blob = chunkBlobName({ digest, size }, { uid, upload, write: newWrite() });
      await store.put(blob, new Uint8Array(size));
      const chunks = [{ blob, offset: 0, length: size, leaves: null }];
      return { content: { digest, size, body: { kind: "chunks", chunks } }, blob };
    };
    const [first, second] = [await open(), await open()];
    const { content, blob } = await wholeIn(first);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload: first }));
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[size, 1]], blobs: [], condemned: [] });
    committed(await branch.files.put({ path: "b", content, attributes: {} }));
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[size, 2]], blobs: [], condemned: [] });
    const again = await wholeIn(second);
    committed(await branch.files.put({ path: "c", content: again.content, attributes: {}, upload: second }));
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[size, 3]], blobs: [], condemned: [again.blob] });
    expect(await swept()).toMatchObject({ found: 0 });
    expect(await stored()).toEqual([blob, again.blob].sort());
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("INSERT INTO pending_deletions (blob, due, borrowed) VALUES (?, 1, 0)", blob);
      sql.exec("UPDATE pending_deletions SET due = 1");
    });
    await vi.waitUntil(async () => {
      await runDurableObjectAlarm(branch);
      return (await ledgerOf(branch)).condemned.length === 0;
    }, 45_000);
    expect(await stored()).toEqual([blob]);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE contents SET refs = 0");
    });
    expect(await swept()).toMatchObject({ found: 0 });
  });

  test("leaves blobs that were made for a content, also if its list alone names them", async () => {
    const upload = await open();
    const [kept, made] = [await brought(upload), await blobOf(upload)];
    const chunks = [kept.blob, made].map((blob) => ({ blob, offset: 0, length: 1, leaves: null }));
    const { digest, size } = inline("whole");
    const whole: Content = { digest, size, body: { kind: "chunks", chunks }, keeps: [kept.content] };
    await branch.uploads.add({ upload, contents: [kept.content] });
    await branch.uploads.add({ upload, contents: [{ ...whole, made: [made] }] });
    committed(await branch.files.commit({ upload, operations: [{ put: "a", digest, size }] }));
    expect(await swept()).toMatchObject({ found: 0 });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE contents SET made = NULL");
      sql.exec("DELETE FROM blobs WHERE name = ?", made);
    });
    expect(await swept()).toMatchObject({ found: 0 });
    expect(await stored()).toEqual([kept.blob, made].sort());
  });

  test("leaves blobs of uploads that are open: of a body, of parts, of a lease; and takes them when those have ended", async () => {
    const output = freshBucket();
    const claimed = await freshOutput(output);
    const leased = await open(claimed, "lease");
    const theirs = await blobOf(leased, { of: await uidOf(claimed) });
    expect(await swept({ of: claimed })).toEqual({ found: 0, seen: 1 });
    const [upload, multipart] = [await open(), await begin(branch)];
    const blobs = [await blobOf(upload), await blobOf(multipart)];
    expect(await swept()).toEqual({ found: 0, seen: 2 });
    expect(await stored()).toEqual(blobs.sort());
    await branch.uploads.abort({ upload });
    await branch.multipart.abort({ upload: multipart });
    await claimed.uploads.abortLeases({ leases: ["lease"] });
    expect(await swept()).toMatchObject({ found: 2 });
    expect(await swept({ of: claimed })).toMatchObject({ found: 1 });
    expect(await env.BLOBS.head(theirs)).toBeNull();
  });

  test("leaves what is condemned to the blob reaper, and what a condemned manifest lists", async () => {
    const upload = await open();
    const [small, large] = [await brought(upload), await broughtLarge(upload)];
    await branch.uploads.add({ upload, contents: [small.content, large.content] });
    await branch.uploads.abort({ upload });
    expect(await swept()).toEqual({ found: 0, seen: 5 });
    expect(await stored()).toEqual([small.blob, ...large.blobs].sort());
    await letPass(["pending_deletions"], SWEEP_AFTER_MS);
    await runDurableObjectAlarm(branch);
    expect(await stored()).toEqual([]);
  });

  test("goes on behind a condemned manifest that can't be read, once the blob reaper could not read it either", async () => {
    const upload = await open();
    const { content, blobs } = await broughtLarge(upload);
    const manifest = blobs.at(-1) ?? "";
    await branch.uploads.add({ upload, contents: [content] });
    await branch.uploads.abort({ upload });
    const all = [...blobs, await orphan()].sort();
    await env.BLOBS.put(manifest, "x".repeat(manifestBytes(manifest) ?? 0));
    await branch.admin.sweep({ remove: true });
    await runDurableObjectAlarm(branch);
    expect(await stored()).toEqual(all);
    await letPass(["pending_deletions"], SWEEP_AFTER_MS);
    await runDurableObjectAlarm(branch);
    expect(await swept()).toEqual({ found: all.length - 1, seen: all.length });
    expect(await stored()).toEqual([manifest]);
    expect(await ledgerOf(branch)).toMatchObject({ condemned: [manifest] });
  });

  test("leaves what staged puts and open multipart uploads keep", async () => {
    const upload = await open();
    const { content, blob } = await brought(upload);
    const openCommit = await startOpenCommit(branch);
    await branch.files.put({ openCommit, path: "a", content, attributes: {}, upload });
    const multipart = await begin(branch, { path: "b" });
    const part = await brought(multipart);
    await branch.multipart.addPart({ upload: multipart, number: 1, content: part.content });
    expect(await swept()).toMatchObject({ found: 0 });
    expect(await stored()).toEqual([blob, part.blob].sort());
  });

  test("finds what is in a folder of more names than a step lists, and in those after it", async () => {
    const upload = "x.y.01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const inFolder = (folder: string, count: number) =>
      Array.from({ length: count }, (_, n) => {
        const digest = folder + String(n).padStart(62, "0");
        return chunkBlobName({ digest, size: 1 }, { uid, upload, write: "first" });
      });
    const lost = [...inFolder("07", 1005), ...inFolder("08", 2), ...inFolder("ff", 1)];
    await Promise.all(lost.map((blob) => env.BLOBS.put(blob, "x")));
    expect(await swept()).toEqual({ found: lost.length, seen: lost.length });
    expect(await stored()).toEqual([]);
  });

  test("leaves the blobs of other branches, of other generations, and names that are not ours", async () => {
    const other = await freshBranch();
    const theirs = await orphan(other);
    const odd = `b/00/${uid}/not a blob`;
    await env.BLOBS.put(odd, "x");
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    const now = await uidOf(branch);
    const [before, after] = [await blobOf("x.y.01ARZ3NDEKTSV4RRFFQ69G5FAV"), await orphan()];
    expect(await swept()).toMatchObject({ found: 2 });
    expect(await env.BLOBS.head(before)).toBeNull();
    expect(await env.BLOBS.head(after)).toBeNull();
    expect(await stored(now)).toEqual([]);
    expect(await stored()).toEqual([odd]);
    expect(await env.BLOBS.head(theirs)).not.toBeNull();
  });

  test("leaves what a fork has of its parent, when the parent has it in no file and is deleted", async () => {
    const upload = await open();
    const [small, large] = [await brought(upload), await broughtLarge(upload)];
    await branch.uploads.add({ upload, contents: [small.content, large.content] });
    const puts = [small, large].map(({ content: { digest, size } }, at) => ({ put: `f${at}`, digest, size }));
    committed(await branch.files.commit({ upload, operations: puts }));
    const fork = await forkOf(bucket);
    await branch.files.commit({ operations: puts.map(({ put }) => ({ delete: put })) });
    await branch.lifecycle.destroy();
    for (const of of [branch, fork.branch]) expect(await swept({ of })).toMatchObject({ found: 0 });
    expect(await stored()).toEqual([small.blob, ...large.blobs].sort());
  });

  test("removes nothing if a manifest that it must read is not there", async () => {
    const upload = await open();
    const { content, blobs } = await broughtLarge(upload);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    const lost = await orphan();
    await env.BLOBS.delete(blobs.at(-1) ?? "");
    await branch.admin.sweep({ remove: true });
    for (let rings = 0; rings < 6; rings++) {
      await letPass(["sweeps"], SWEEP_AFTER_MS);
      await runDurableObjectAlarm(branch);
    }
    expect(await stored()).toContain(lost);
  });

  test("goes on by itself when the store is there again, and mixes nothing with another generation's", async () => {
    const first = await orphan();
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    const upload = await open();
    const kept = await blobOf(upload, { of: await uidOf(branch) });
    const list = vi.spyOn(R2BlobStore.prototype, "list").mockRejectedValue(new Error("away"));
    await branch.admin.sweep({ remove: true });
    await runDurableObjectAlarm(branch);
    await expect.poll(async () => (await waiting()).alarm ?? 0).toBeGreaterThan(Date.now());
    list.mockRestore();
    await allSwept();
    expect(await env.BLOBS.head(first)).toBeNull();
    expect(await env.BLOBS.head(kept)).not.toBeNull();
  });

  test("that can't delete an orphan takes the others, those of other generations, and comes back for it", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const [stuck, beside] = [await orphan(), await orphan()];
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    uid = await uidOf(branch);
    const later = await orphan();
    const real = R2BlobStore.prototype.delete;
    const remove = vi.spyOn(R2BlobStore.prototype, "delete").mockImplementation(async function (
      this: R2BlobStore,
      names,
    ) {
      await real.call(
        this,
        names.filter((name) => name !== stuck),
      );
      if (names.includes(stuck)) throw new NotDeletedError([stuck], new Error("is locked"));
    });
    await branch.admin.sweep({ remove: true });
    await expect
      .poll(async () => {
        await letPass(["sweeps"], MINUTE_MS);
        await runDurableObjectAlarm(branch);
        return await env.BLOBS.head(later);
      })
      .toBeNull();
    expect(await env.BLOBS.head(beside)).toBeNull();
    expect(await env.BLOBS.head(stuck)).not.toBeNull();
    expect(warn).toHaveBeenCalledWith(expect.stringContaining(`blob ${stuck} that nothing names`));
    remove.mockRestore();
    await allSwept();
    expect(await env.BLOBS.head(stuck)).toBeNull();
  });

  test("leaves a content whose upload was committed while its folder was listed", async () => {
    const upload = await open();
    const { content, blob } = await brought(upload);
    const { list } = R2BlobStore.prototype;
    let state: "not yet" | "listed" | "committed" = "not yet";
    vi.spyOn(R2BlobStore.prototype, "list").mockImplementation(async function (this: R2BlobStore, request) {
      const page = await list.call(this, request);
      if (page.names.includes(blob)) state = "listed";
      while (state === "listed") await scheduler.wait(1);
      return page;
    });
    const sweeping = swept();
    await vi.waitUntil(() => state === "listed", 45_000);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    state = "committed";
    expect(await sweeping).toEqual({ found: 0, seen: 1 });
    expect(await stored()).toEqual([blob]);
  });

  test("spares an orphan that something names by the time when it would go", async () => {
    const lost = await orphan();
    const named = await orphan();
    await runInDurableObject(branch, async (_, { storage }) => {
      const ledger = new Ledger(storage, { almostFull() {} });
      const phase = () => storage.sql.exec("SELECT phase FROM sweeps").one().phase;
      ledger.transaction(() => ledger.sweeps.ask({ removes: true, now: Date.now() }));
      const scan = orphanScan({
        ...{ ledger, now: Date.now, store: () => store, bucket: () => bucket },
        async turn() {
          // Both were found, and proved. Only the last look is left.
          if (phase() === 4)
            storage.sql.exec("INSERT OR IGNORE INTO blobs (name, refs) VALUES (?, 1)", named);
        },
      });
      for (let next: unknown = "next alarm"; next === "next alarm"; ) next = await scan.step();
    });
    expect(await stored()).toEqual([named]);
    expect(await stored()).not.toContain(lost);
  });

  const steps = [
    /INSERT INTO orphans/,
    /UPDATE sweeps SET folder/,
    /UPDATE sweeps SET phase/,
    /UPDATE sweeps SET content/,
    /DELETE FROM orphans WHERE blob IN/,
    /UPDATE sweeps SET found/,
    /UPDATE sweeps SET beganAt = NULL, endedAt/,
  ];
  test.each(steps)("that crashes before %s does the same when it goes on", async (statement) => {
    const upload = await open();
    const { content, blobs } = await broughtLarge(upload);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    const lost = await orphan();
    const crash = crashAt({ statement, nth: 1 });
    await branch.admin.sweep({ remove: true });
    await runDurableObjectAlarm(branch).catch(() => {});
    await crash.reached();
    crash.resume();
    await restarted(branch);
    await allSwept();
    expect(await stored()).toEqual(blobs.sort());
    expect(await stored()).not.toContain(lost);
    expect((await waiting()).due).toBeNull();
  });
});

describe("a branch asks for a sweep", () => {
  test("when an upload ran out, some time later, and rests when that is done", async () => {
    const upload = await open();
    const blob = await blobOf(upload);
    await letPass(["uploads"], UPLOAD_LEASE_MS);
    await runDurableObjectAlarm(branch);
    const { due, alarm } = await waiting();
    expect(due).toBeGreaterThan(Date.now() + SWEEP_AFTER_MS / 2);
    expect(alarm).toBeLessThanOrEqual(due ?? 0);
    expect(await stored()).toEqual([blob]);
    await letPass(["sweeps"], SWEEP_AFTER_MS);
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await waiting();
      })
      .toEqual({ due: null, alarm: null });
    expect(await stored()).toEqual([]);
  });

  test("when an upload outlived the instance that opened it, whose bodies may have died with it", async () => {
    const multipart = await begin(branch);
    await scheduler.wait(2);
    await restarted(branch);
    await branch.multipart.abort({ upload: multipart });
    expect((await waiting()).due).not.toBeNull();
  });

  test("when an upload outlived the instance that opened it, also if the clock was set back meanwhile", async () => {
    const multipart = await begin(branch);
    const real = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => real() - 60 * MINUTE_MS);
    await restarted(branch);
    await branch.multipart.abort({ upload: multipart });
    expect((await waiting()).due).not.toBeNull();
  });

  test("when so many uploads were opened since that its instance remembers it no more", async () => {
    const first = await open();
    await runInDurableObject(branch, async (object: Branch) => {
      for (let n = 0; n < 10_000; n++) await object.call("uploads.open", [{}]);
    });
    await branch.uploads.abort({ upload: first, leaves: false });
    expect((await waiting()).due).not.toBeNull();
  });

  test("when whoever gives up an upload says that it could not remove all", async () => {
    const [clean, unclean] = [await open(), await open()];
    await branch.uploads.abort({ upload: clean, leaves: false });
    expect((await waiting()).due).toBeNull();
    await branch.uploads.abort({ upload: unclean, leaves: true });
    expect((await waiting()).due).not.toBeNull();
  });

  test("never while its uploads all end well", async () => {
    const upload = await open();
    const { content } = await brought(upload);
    committed(await branch.files.put({ path: "a", content, attributes: {}, upload }));
    await branch.multipart.abort({ upload: await begin(branch) });
    expect((await waiting()).due).toBeNull();
  });

  test("not more often than every few hours, and again if something comes while one is under way", async () => {
    const giveUp = async () => branch.uploads.abort({ upload: await open(), leaves: true });
    await giveUp();
    await letPass(["sweeps"], SWEEP_AFTER_MS);
    while ((await waiting()).due !== null) await runDurableObjectAlarm(branch);
    await giveUp();
    expect((await waiting()).due).toBeGreaterThan(Date.now() + BETWEEN_SWEEPS_MS / 2);
    await letPass(["sweeps"], BETWEEN_SWEEPS_MS);
    await runDurableObjectAlarm(branch);
    await giveUp();
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return ((await waiting()).due ?? 0) - Date.now();
      })
      .toBeGreaterThan(0);
  });
});

/** A pipeline's output branch. */
async function freshOutput(named: string): Promise<BranchStub> {
  const output = branchOf(named);
  const claimed = await output.output.claim({ pipeline: "p", uid: `uid-${named}` });
  if (!claimed.ok) throw new Error(claimed.reason);
  return output;
}

test("a branch that was deleted with a body under way comes to rest without it", async () => {
  const upload = await open();
  const blob = await blobOf(upload);
  await branch.lifecycle.destroy();
  const gone = async () => {
    await atRest(branch);
    return await env.BLOBS.head(blob);
  };
  // An alarm that rings by itself is not waited for.
  await expect.poll(gone).toBeNull();
});
