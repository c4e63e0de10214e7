import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { chunkBlobName } from "../../../worker/blobs/blob-name.ts";
import { ChunkList } from "../../../worker/blobs/manifest.ts";
import type { UnwantedBlob } from "../../../worker/blobs/port.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import type { Branch } from "../../../worker/branch/branch.ts";
import {
  NAMELESS_GRACE_MS,
  READERS_GRACE_MS,
} from "../../../worker/branch/contents/pending-deletion-store.ts";
import type { VersionEntry } from "../../../worker/branch/contract/files.ts";
import { UPLOAD_LEASE_MS } from "../../../worker/branch/contract/uploads.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { SWEEP_AFTER_MS } from "../../../worker/branch/uploads/sweep-store.ts";
import { blobReaper } from "../../../worker/branch/work/blob-reaper.ts";
import { housekeeping } from "../../../worker/branch/work/housekeeping.ts";
import { Alarm } from "../../../worker/objects/alarm.ts";
import { numbered, putText, seed, stageAll } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  chunked,
  completion,
  DAY_MS,
  finished,
  freshBranch,
  inline,
  inObject,
  ledgerOf,
  passed,
  put,
  stage,
  startOpenCommit,
  withoutCatalogue,
} from "./support.ts";

const REFUSED = { ok: false, reason: "no-such-upload" };

function alarmOf(branch: BranchStub): Promise<number | null> {
  return runInDurableObject(branch, (_, { storage }) => storage.getAlarm());
}

describe("what runs out", () => {
  test("a multipart upload to which nothing was added for its time goes, with its parts", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { ttlMs: 7 * DAY_MS });
    await branch.multipart.addPart({ upload, number: 1, content: chunked("one", ["b/1"]) });
    await passed(branch, 6 * DAY_MS);
    await runDurableObjectAlarm(branch);
    expect(await branch.multipart.status({ upload })).toMatchObject({ ok: true });
    await passed(branch, DAY_MS + 1000);
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await branch.multipart.status({ upload })).toEqual(REFUSED);
    expect(await ledgerOf(branch)).toEqual({
      refs: [],
      blobs: [],
      condemned: ["b/1"],
      holds: 0,
      uploads: 0,
    });
    await passed(branch, NAMELESS_GRACE_MS);
    await runDurableObjectAlarm(branch);
    expect(await ledgerOf(branch)).toMatchObject({ condemned: [] });
    expect(await alarmOf(branch)).toBeNull();
  });

  test.each([
    [
      "a part",
      (branch: BranchStub, upload: string) =>
        branch.multipart.addPart({ upload, number: 1, content: chunked("one", ["b/1"]) }),
    ],
    [
      "progress",
      (branch: BranchStub, upload: string) => branch.multipart.saveProgress({ upload, progress: "half" }),
    ],
    ["a renewal", (branch: BranchStub, upload: string) => branch.uploads.renew({ upload })],
  ])("%s keeps a multipart upload open for its whole time again", async (_, renew) => {
    const branch = await freshBranch();
    const upload = await begin(branch, { ttlMs: 7 * DAY_MS });
    await passed(branch, 6 * DAY_MS);
    expect(await renew(branch, upload)).toMatchObject({ ok: true });
    await passed(branch, 6 * DAY_MS);
    await runDurableObjectAlarm(branch);
    expect(await branch.multipart.status({ upload })).toMatchObject({ ok: true });
  });

  test("a completion that nobody asks for in a day is forgotten, its object stays", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const one = chunked("one", ["b/1"]);
    await branch.multipart.addPart({ upload, number: 1, content: one });
    const request = completion(upload, { 1: one });
    await branch.multipart.complete(request);
    await passed(branch, DAY_MS + 1000);
    await runDurableObjectAlarm(branch);
    expect(await branch.multipart.status({ upload })).toEqual(REFUSED);
    expect(await branch.multipart.complete(request)).toEqual(REFUSED);
    expect(await branch.files.read({ path: "big" })).toMatchObject({ ok: true });
  });

  test("of a blob that could not be deleted is not the grace that a reader got while it was tried", async () => {
    const branch = await freshBranch();
    for (const [text, blob] of [
      ["one", "b/1"],
      ["two", "b/2"],
    ] as const) {
      await branch.files.put({ path: "file", content: chunked(text, [blob]), attributes: {} });
    }
    await branch.files.put({ path: "file", content: inline("three"), attributes: {} });
    const version = (await branch.files.versions({ prefix: "", limit: 3 })) as {
      entries: readonly VersionEntry[];
    };
    const gone = version.entries.slice(1).flatMap((entry) => (entry.kind === "version" ? [entry] : []));
    await branch.erasures.erase({ versions: gone.map(({ path, version }) => ({ path, version })) });
    const due = await runInDurableObject(branch, async (_, { storage }) => {
      const ledger = new Ledger(storage, { almostFull() {} });
      storage.sql.exec("UPDATE pending_deletions SET due = due - ?", READERS_GRACE_MS);
      const now = Date.now();
      const remove = async () => {
        ledger.transaction(() => ledger.pendingDeletions.keepForReaders(["b/1"], now));
        throw new Error("the store is away");
      };
      await blobReaper({ ledger, now: () => now, remove, hasCopies: () => false }).step();
      const rows = storage.sql.exec<{ blob: string; due: number }>(
        "SELECT blob, due FROM pending_deletions ORDER BY blob",
      );
      return rows.toArray().map(({ blob, due }) => [blob, due - now]);
    });
    expect(due).toEqual([
      ["b/1", READERS_GRACE_MS],
      ["b/2", 10_000],
    ]);
  });

  test("a blob that can't be deleted is tried later and later, but at least once an hour", async () => {
    const branch = await freshBranch();
    const seconds = await runInDurableObject(branch, async (_, { storage }) => {
      const ledger = new Ledger(storage, { almostFull() {} });
      storage.sql.exec("INSERT INTO pending_deletions (blob, due, borrowed) VALUES ('b/1', 1, 0)");
      const waits: number[] = [];
      let now = 1;
      const remove = async () => {
        throw new Error("the store is away");
      };
      for (let tries = 0; tries < 30; tries++) {
        await blobReaper({ ledger, now: () => now, remove, hasCopies: () => false }).step();
        const due = ledger.pendingDeletions.nextDue() ?? 0;
        waits.push((due - now) / 1000);
        now = due;
      }
      return waits;
    });
    const doubled = [10, 20, 40, 80, 160, 320, 640, 1280, 2560];
    expect(seconds).toEqual([...doubled, ...Array.from({ length: 21 }, () => 3600)]);
  });

  test("a blob that is being deleted when its object dies is deleted by the next instance", async () => {
    const branch = await freshBranch();
    const left = await runInDurableObject(branch, (_, { storage }) => {
      const ledger = new Ledger(storage, { almostFull() {} });
      storage.sql.exec("INSERT INTO pending_deletions (blob, due, borrowed) VALUES ('b/1', 1, 0)");
      const asked: string[] = [];
      const remove = (unwanted: readonly UnwantedBlob[]) => {
        asked.push(...unwanted.map(({ blob }) => blob));
        // The object dies before the store has answered.
        return new Promise<never>(() => {});
      };
      void blobReaper({ ledger, now: () => 1, remove, hasCopies: () => false }).step();
      expect(asked).toEqual(["b/1"]);
      const next = new Ledger(storage, { almostFull() {} });
      return next.transaction(() => next.pendingDeletions.due(1, 10));
    });
    expect(left).toMatchObject([{ blob: "b/1", borrowed: 0 }]);
  });

  describe("a condemned manifest that can't be read", () => {
    const store = new R2BlobStore(env.BLOBS);
    const owner = { uid: crypto.randomUUID(), upload: "x.y.01ARZ3NDEKTSV4RRFFQ69G5FAV", write: "w" };

    afterEach(() => {
      vi.restoreAllMocks();
    });

    async function blobOf(text: string): Promise<string> {
      const { digest, size } = inline(text);
      const blob = chunkBlobName({ digest, size }, owner);
      await store.put(blob, new TextEncoder().encode(text));
      return blob;
    }

    async function manifestOf(chunk: string): Promise<string> {
      const list = new ChunkList({ store, owner, bound: 1 });
      await list.add({ blob: chunk, offset: 0, length: 1, leaves: null });
      const body = await list.finish();
      if (body.kind !== "manifest") throw new Error("the list fits a row");
      return body.blob;
    }

    async function bytesOf(blob: string): Promise<string | undefined> {
      return await (await env.BLOBS.get(blob))?.text();
    }

    async function isThere(blob: string): Promise<boolean> {
      return (await env.BLOBS.head(blob)) !== null;
    }

    /** The alarm rings when all of these are due. */
    async function collected(branch: BranchStub, blobs: readonly string[] = []): Promise<void> {
      await runInDurableObject(branch, async (object: Branch, { storage: { sql } }) => {
        for (const blob of blobs)
          sql.exec("INSERT INTO pending_deletions (blob, due, borrowed) VALUES (?, 1, 0)", blob);
        sql.exec("UPDATE pending_deletions SET due = 1");
        await object.alarm();
      });
    }

    test.each([
      ["is no JSON", (text: string) => "x".repeat(text.length)],
      ["lost its end", (text: string) => text.slice(0, -1)],
    ])("since it %s holds up no other, and goes with what it lists when it can be read again", async (_, spoil) => {
      const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
      const branch = await freshBranch();
      const [listed, others] = [await blobOf("listed"), [await blobOf("other")]];
      const manifest = await manifestOf(listed);
      others.push(await manifestOf(await blobOf("another")), await manifestOf(await blobOf("one more")));
      const sound = (await bytesOf(manifest)) ?? "";
      await env.BLOBS.put(manifest, spoil(sound));
      await collected(branch, [manifest, ...others]);
      expect(await ledgerOf(branch)).toMatchObject({ condemned: [manifest] });
      expect(await Promise.all(others.map(isThere))).toEqual([false, false, false]);
      expect(await Promise.all([manifest, listed].map(isThere))).toEqual([true, true]);
      const [said] = warned.mock.calls.map(String).filter((line) => line.includes(manifest));
      expect(said).toMatch(/could not be deleted; nothing is forgotten, and it is tried again in 10 s: /);
      await collected(branch);
      expect(await ledgerOf(branch)).toMatchObject({ condemned: [manifest] });
      await env.BLOBS.put(manifest, sound);
      await collected(branch);
      expect(await ledgerOf(branch)).toMatchObject({ condemned: [] });
      expect(await Promise.all([manifest, listed].map(isThere))).toEqual([false, false]);
    });
  });

  /** Takes the steps of the object's housekeeping, and counts the rows of a table after each until none is left. */
  function leftAfterEach(branch: BranchStub, table: string): Promise<number[]> {
    return runInDurableObject(branch, async (_, { storage }) => {
      const loop = housekeeping({ ledger: new Ledger(storage), now: Date.now });
      const counts: number[] = [];
      while (counts.at(-1) !== 0) {
        loop.step();
        counts.push(Number(storage.sql.exec(`SELECT count(*) AS n FROM ${table}`).one().n));
      }
      return counts;
    });
  }

  test("many open commits end in one step, as far as what they staged lets them", async () => {
    const branch = await freshBranch();
    for (let n = 0; n < 20; n++) {
      const openCommit = await startOpenCommit(branch);
      await stage(branch, openCommit, { puts: [`put ${n}`] });
      if (n !== 9) continue;
      for (const folder of ["a/", "b/"]) await stage(branch, openCommit, { deletes: numbered(folder, 750) });
    }
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE open_commits SET due = number");
    });
    expect(await leftAfterEach(branch, "open_commits")).toEqual([11, 0]);
    await expect.poll(() => ledgerOf(branch)).toMatchObject({ refs: [] });
  });

  test("many uploads go in slices", async () => {
    const branch = await freshBranch();
    for (let n = 0; n < 12; n++) {
      const upload = await begin(branch, { path: `p${n}` });
      await branch.multipart.addPart({ upload, number: 1, content: chunked(`one ${n}`, [`b/${n}`]) });
    }
    await passed(branch, DAY_MS + 1000);
    expect(await leftAfterEach(branch, "uploads")).toEqual([7, 2, 0]);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [], blobs: [], holds: 0, uploads: 0 });
  });

  test("what is left of an upload too large to end at once is for the alarm, and comes to life if it is needed", async () => {
    const branch = await freshBranch();
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    const contents = Array.from({ length: 700 }, (_, n) => chunked(`content ${n}`, [`b/${n}`]));
    await branch.uploads.add({ upload, contents });
    const again = await branch.uploads.open({});
    if (!again.ok) throw new Error(again.reason);
    const wanted = contents.map(({ digest, size }) => ({ digest, size }));
    const missing = await inObject(branch, async (object) => {
      await object.uploads.abort({ upload });
      const reserved = await object.uploads.reserve({ upload: again.upload, contents: wanted });
      return reserved.ok && reserved.missing;
    });
    expect(missing).toHaveLength(200);
    // Those that came to life are let go of by the upload that ended.
    const left = async () => {
      await runDurableObjectAlarm(branch);
      const { holds, blobs } = await ledgerOf(branch);
      return [holds, blobs.length];
    };
    await expect.poll(left, { timeout: 30_000 }).toEqual([500, 500]);
    const { refs, blobs, condemned } = await ledgerOf(branch);
    expect(refs.map(([, count]) => count)).toEqual(Array.from({ length: 500 }, () => 1));
    expect(blobs).toHaveLength(500);
    expect(condemned).toHaveLength(200);
    expect(condemned.filter((blob) => blobs.some(([name]) => name === blob))).toEqual([]);
  });

  test("uploads of a branch that was deleted go, and those of the next one of its name stay", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { ttlMs: 7 * DAY_MS });
    await branch.multipart.addPart({ upload, number: 1, content: chunked("one", ["b/1"]) });
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    const own = await begin(branch);
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [], condemned: ["b/1"], uploads: 1 });
    expect(await branch.multipart.status({ upload: own })).toMatchObject({ ok: true });
  });
});

describe("the alarm", () => {
  test("is for the earliest of what waits, and is set anew for the next", async () => {
    const branch = await freshBranch();
    await runDurableObjectAlarm(branch);
    const start = Date.now();
    await begin(branch, { ttlMs: 7 * DAY_MS });
    expect(await alarmOf(branch)).toBeGreaterThan(start + DAY_MS);
    await branch.uploads.open({});
    const alarm = await alarmOf(branch);
    expect(alarm).toBeLessThanOrEqual(Date.now() + UPLOAD_LEASE_MS);
    await runDurableObjectAlarm(branch);
    expect(await alarmOf(branch)).toBe(alarm);
    await passed(branch, UPLOAD_LEASE_MS + 1000);
    await runDurableObjectAlarm(branch);
    // What the upload may have left is looked for.
    expect(await alarmOf(branch)).toBeLessThanOrEqual(Date.now() + SWEEP_AFTER_MS);
    await passed(branch, SWEEP_AFTER_MS);
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await alarmOf(branch);
      })
      .toBeGreaterThan(start + DAY_MS);
  });

  test("for a bell that waits is not put off by an upload, nor the other way round", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "no-such-pipeline" });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("INSERT INTO outbox (receiver, uid, event, due) VALUES ('pipeline', 'u', 'e', ?)", Date.now());
    });
    await begin(branch, { ttlMs: 7 * DAY_MS });
    expect(await alarmOf(branch)).toBeLessThan(Date.now() + DAY_MS);
    await put(branch, "a");
    while ((await alarmOf(branch)) !== null && ((await alarmOf(branch)) ?? 0) < Date.now() + DAY_MS) {
      await runInDurableObject(
        branch,
        (_, { storage: { sql } }) => void sql.exec("UPDATE outbox SET due = 0"),
      );
      await runDurableObjectAlarm(branch);
    }
    expect(await alarmOf(branch)).toBeGreaterThan(Date.now() + DAY_MS);
  });

  test("of an earlier instance is not put off by a later one that sets it", () => {
    const set: number[] = [];
    const alarm = new Alarm({
      now: () => 1000,
      nextDue: () => 20_000,
      set: (at) => set.push(at),
      unset: () => set.push(-1),
    });
    alarm.ringBy(50_000);
    alarm.ringBy(60_000);
    alarm.ringBy(15_000);
    alarm.rang();
    alarm.renew();
    expect(set).toEqual([20_000, 15_000, 20_000]);
  });

  test("that is due is not put off by calls that come before it rings, and is set anew if it does not", () => {
    let now = 1000;
    const set: number[] = [];
    const alarm = new Alarm({
      now: () => now,
      nextDue: () => undefined,
      set: (at) => set.push(at),
      unset: () => set.push(-1),
    });
    // As each commit of a branch that gives back does.
    for (; now < 16_000; now += 10) alarm.ringBy(now + 5000);
    expect(set).toEqual([6000]);
    alarm.ringBy(now + 5000);
    expect(set).toEqual([6000, 16_001]);
    alarm.rang();
    alarm.ringBy(now + 5000);
    expect(set).toEqual([6000, 16_001, 21_000]);
  });

  test("is never set for the past", () => {
    const set: number[] = [];
    const alarm = new Alarm({
      now: () => 1000,
      nextDue: () => undefined,
      set: (at) => set.push(at),
      unset: () => set.push(-1),
    });
    alarm.ringBy(3);
    expect(set).toEqual([1001]);
  });
});

describe("an object that has nothing to do comes to rest: no alarm stays set after", () => {
  /** How much time or another turn of the object is to bring. */
  function owed(branch: BranchStub): Promise<number> {
    return runInDurableObject(branch, (_, { storage: { sql } }) => {
      const rows = [
        "outbox",
        "applying",
        "completions",
        "uploads WHERE due >= 0",
        "open_commits WHERE due >= 0",
        "pending_deletions",
        "sweeps WHERE due >= 0",
        "ended",
      ];
      const counts = [...rows, "contents WHERE refs = 0"].map(
        (of) => sql.exec(`SELECT count(*) AS n FROM ${of}`).one().n,
      );
      return counts.reduce<number>((sum, n) => sum + Number(n), 0);
    });
  }

  /** Lets all that waits be due, and the alarm ring, until nothing waits. */
  async function letTimePass(branch: BranchStub): Promise<void> {
    await expect
      .poll(async () => {
        await runInDurableObject(branch, (_, { storage: { sql } }) => {
          for (const table of [
            "outbox",
            "completions",
            "uploads",
            "open_commits",
            "pending_deletions",
            "sweeps",
          ])
            sql.exec(`UPDATE ${table} SET due = 0 WHERE due IS NOT NULL`);
        });
        // What time brings is for the alarm alone: it must be set as long as anything is owed.
        if ((await owed(branch)) > 0) expect(await alarmOf(branch)).not.toBeNull();
        await runDurableObjectAlarm(branch);
        return await owed(branch);
      })
      .toBe(0);
  }

  async function anUpload(branch: BranchStub): Promise<string> {
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const content = chunked("one", ["b/1"]);
    await branch.uploads.add({ upload: opened.upload, contents: [content] });
    return opened.upload;
  }

  test.each<[string, (branch: BranchStub) => Promise<unknown>]>([
    ["its creation", async () => {}],
    ["a put", async (branch) => await put(branch, "a")],
    [
      "a put whose content came by an upload",
      async (branch) => {
        const upload = await anUpload(branch);
        await branch.files.put({ path: "a", content: chunked("one", ["b/1"]), attributes: {}, upload });
      },
    ],
    ["an upload that ran out", anUpload],
    [
      "an upload that was given up",
      async (branch) => await branch.uploads.abort({ upload: await anUpload(branch) }),
    ],
    [
      "a multipart upload that was completed",
      async (branch) => {
        const upload = await begin(branch);
        const one = chunked("one", ["b/1"]);
        await branch.multipart.addPart({ upload, number: 1, content: one });
        await branch.multipart.complete(completion(upload, { 1: one }));
      },
    ],
    [
      "an open commit that ran out",
      async (branch) => await stage(branch, await startOpenCommit(branch), { puts: ["a", "b"] }),
    ],
    [
      "an open commit that was finished",
      async (branch) => {
        const openCommit = await startOpenCommit(branch);
        await stage(branch, openCommit, { puts: ["a", "b"] });
        await finished(branch, openCommit);
      },
    ],
    [
      "an open commit that was aborted",
      async (branch) => {
        const openCommit = await startOpenCommit(branch);
        await stage(branch, openCommit, { puts: ["a", "b"] });
        await branch.openCommits.abort({ openCommit });
      },
    ],
    [
      "a large commit",
      async (branch) => {
        await seed(branch);
        const puts = numbered("p", 10_001).map((path, n) => putText(path, n));
        await finished(branch, await stageAll(branch, puts));
      },
    ],
    [
      "subscribers were told of commits",
      async (branch) => {
        for (const uid of ["u", "v"]) await branch.feed.subscribe({ uid, pipeline: `no-pipeline-${uid}` });
        for (const path of ["a", "b"]) await put(branch, path);
      },
    ],
    [
      "a pipeline claimed it and gave it up",
      async (branch) => {
        await branch.lifecycle.destroy();
        await branch.output.claim({ pipeline: "p", uid: "u" });
        await branch.uploads.open({ lease: "l" });
        await branch.output.release({ uid: "u", destroy: false });
      },
    ],
    [
      "it was deleted with an upload in parts under way",
      async (branch) => {
        await begin(branch);
        await branch.lifecycle.destroy();
      },
    ],
    [
      "the catalogue could not be reached",
      async (branch) => await withoutCatalogue(async () => await branch.lifecycle.destroy()),
    ],
  ])("%s", async (_, work) => {
    const branch = await freshBranch();
    await work(branch);
    await letTimePass(branch);
    // One more, since an alarm that watches over what has just happened may still be set.
    await runDurableObjectAlarm(branch);
    expect(await alarmOf(branch)).toBeNull();
  });
});
