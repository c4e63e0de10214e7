import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import {
  allTold,
  type BranchStub,
  branchOf,
  commitFiles,
  committed,
  freshBranch,
  freshBucket,
  inline,
  put,
} from "./support.ts";

const START = { generation: 0, seq: 0 };

describe("subscribing", () => {
  test("a branch that is not there yet can be subscribed to, and is not made by it", async () => {
    const branch = branchOf(freshBucket());
    const subscriber = { uid: "u", pipeline: "p" };
    expect(await branch.feed.subscribe(subscriber)).toEqual({ ok: true, cursor: START, exists: false });
    expect(await branch.lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
    expect((await branch.lifecycle.create()).ok).toBe(true);
    expect(await branch.feed.subscribe(subscriber)).toEqual({
      ok: true,
      cursor: { generation: 1, seq: 0 },
      exists: true,
    });
  });

  test("the cursor stands at HEAD, and behind a deletion", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const subscriber = { uid: "u", pipeline: "p" };
    const { cursor } = await branch.feed.subscribe(subscriber);
    expect(cursor).toEqual({ generation: 1, seq: 1 });
    expect((await branch.feed.read({ cursor, limit: 10 })).events).toEqual([]);
    await branch.lifecycle.destroy();
    expect(await branch.feed.subscribe(subscriber)).toMatchObject({
      cursor: { generation: 1, seq: 2 },
      exists: false,
    });
  });
});

describe("the feed", () => {
  test("each commit is an event with what it changed; a replaced file is one change", async () => {
    const branch = await freshBranch();
    const first = committed(await commitFiles(branch, { puts: { a: "1", b: "2" } }));
    const second = committed(await commitFiles(branch, { puts: { a: "3", "d/": "" }, deletes: ["b"] }));
    const { events, more } = await branch.feed.read({ cursor: START, limit: 100 });
    const file = (text: string) => ({ kind: "file", digest: inline(text).digest, size: text.length });
    expect(more).toBe(false);
    expect(events).toMatchObject([
      {
        generation: 1,
        seq: 1,
        id: first,
        kind: "commit",
        next: null,
        changes: [
          { path: "a", now: file("1") },
          { path: "b", now: file("2") },
        ],
      },
      {
        generation: 1,
        seq: 2,
        id: second,
        changes: [
          { path: "a", now: file("3") },
          { path: "b", now: null },
          { path: "d/", now: { kind: "dir", size: 0 } },
        ],
      },
    ]);
  });

  test("a deletion is one event, and the next generation's commits follow it", async () => {
    const branch = await freshBranch();
    const first = await put(branch, "a");
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    const second = await put(branch, "b");
    const { events } = await branch.feed.read({ cursor: START, limit: 100 });
    expect(
      events.map(({ generation, seq, kind, changes }) => [generation, seq, kind, changes.length]),
    ).toEqual([
      [1, 1, "commit", 1],
      [1, 2, "deletion", 0],
      [2, 1, "commit", 1],
    ]);
    expect([events[0]?.id, events[2]?.id]).toEqual([first, second]);
    expect(events[1]?.id).not.toBe(first);
    const at = { generation: 1, seq: 2 };
    expect(await branch.feed.filesAt({ ...at, prefix: "", after: "", limit: 10 })).toEqual({
      files: [],
      next: null,
    });
    expect(await branch.feed.fingerprint({ ...at, path: "" })).toBeNull();
    const rest = await branch.feed.read({ cursor: at, limit: 100 });
    expect(rest.events.map(({ id }) => id)).toEqual([second]);
  });

  test("a page holds about as many changes as asked for, and a large commit goes on with `changes`", async () => {
    const branch = await freshBranch();
    const names = Array.from({ length: 7 }, (_, n) => `f${n}`);
    await commitFiles(branch, { puts: Object.fromEntries(names.map((name) => [name, name])) });
    await put(branch, "g1");
    await put(branch, "g2");
    await put(branch, "g3");
    const page = await branch.feed.read({ cursor: START, limit: 3 });
    expect(page).toMatchObject({ more: true, events: [{ seq: 1, next: "f2" }] });
    const at = { generation: 1, seq: 1 };
    const rest = await branch.feed.changes({ ...at, after: "f2", limit: 3 });
    expect(rest.changes.map(({ path }) => path)).toEqual(["f3", "f4", "f5"]);
    expect(await branch.feed.changes({ ...at, after: rest.next ?? "", limit: 3 })).toMatchObject({
      changes: [{ path: "f6" }],
      next: null,
    });
    const second = await branch.feed.read({ cursor: at, limit: 2 });
    expect(second).toMatchObject({ more: true, events: [{ seq: 2 }, { seq: 3 }] });
    expect(await branch.feed.read({ cursor: { generation: 1, seq: 3 }, limit: 2 })).toMatchObject({
      more: false,
    });
  });

  test("files and fingerprints are of a position, and a fingerprint changes with what is below alone", async () => {
    const branch = await freshBranch();
    committed(await commitFiles(branch, { puts: { "d/a": "1", "d/b/c": "22", "d-x": "3", "e/": "" } }));
    const one = { generation: 1, seq: 1 };
    const files = await branch.feed.filesAt({ ...one, prefix: "d/", after: "", limit: 1 });
    expect(files).toMatchObject({ files: [{ path: "d/a", kind: "file", size: 1 }], next: "d/a" });
    const before = await branch.feed.fingerprint({ ...one, path: "d" });
    expect(before).toMatchObject({ size: 3 });
    await put(branch, "d-x", "other");
    const two = { generation: 1, seq: 2 };
    expect(await branch.feed.fingerprint({ ...two, path: "d" })).toEqual(before);
    expect(await branch.feed.fingerprint({ ...two, path: "" })).not.toEqual(
      await branch.feed.fingerprint({ ...one, path: "" }),
    );
    await put(branch, "d/b/c", "23");
    expect(await branch.feed.fingerprint({ generation: 1, seq: 3, path: "d" })).not.toEqual(before);
    expect(await branch.feed.fingerprint({ ...one, path: "d" })).toEqual(before);
    expect(await branch.feed.fingerprint({ ...one, path: "e" })).toMatchObject({ size: 0 });
    expect(await branch.feed.fingerprint({ ...one, path: "d-x" })).toBeNull();
    expect(await branch.feed.fingerprint({ ...one, path: "nothing" })).toBeNull();
  });

  test("a fingerprint over many pages is that of the position, also while commits go on", async () => {
    const branch = await freshBranch();
    const names = Array.from({ length: 2500 }, (_, n) => `d/${String(n).padStart(4, "0")}`);
    committed(await commitFiles(branch, { puts: Object.fromEntries(names.map((name) => [name, name])) }));
    const at = { generation: 1, seq: 1, path: "d" };
    const quiet = await branch.feed.fingerprint(at);
    const writes = Promise.all(
      ["d/2400", "d/1500", "d/zzz", "d/0001"].map((path) => put(branch, path, "new")),
    );
    expect(await branch.feed.fingerprint(at)).toEqual(quiet);
    await writes;
    expect(await branch.feed.fingerprint(at)).toEqual(quiet);
  });

  test("every commit after an answer has a later time than the answer's `now`, also after a restart with the clock back", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const { now } = await branch.feed.read({ cursor: START, limit: 1 });
    // As if the clock had been an hour ahead then.
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE clock SET promised = promised + 3600000");
    });
    await evictDurableObject(branch);
    const late = await branch.files.put({ path: "b", content: inline("b"), attributes: {} });
    expect(late.ok && late.modifiedAt).toBeGreaterThan(now + 3_600_000);
  });
});

describe("doorbells", () => {
  /** Bells that rang, in the place of the pipeline; while `reachable` is false they fail. */
  async function listenTo(branch: BranchStub) {
    const heard = { rings: [] as string[], reachable: true };
    await runInDurableObject(branch, (instance) => {
      const held = instance as unknown as { env: object };
      const call = async (name: string, [{ uid }]: [{ uid: string }]) => {
        expect(name).toBe("wakeUps.ring");
        if (!heard.reachable) throw new Error("unreachable");
        heard.rings.push(uid);
      };
      held.env = { ...held.env, PIPELINE: { getByName: () => ({ call }) } };
    });
    return heard;
  }

  const outbox = (branch: BranchStub) =>
    runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql.exec("SELECT receiver, uid, tries FROM outbox").toArray(),
    );

  /** Waits until a bell could not be rung. It is the only row, and may have been tried more than once. */
  const triedInVain = (branch: BranchStub) =>
    expect
      .poll(async () =>
        (await outbox(branch)).map(({ receiver, uid, tries }) => [receiver, uid, Number(tries) > 0]),
      )
      .toEqual([["pipeline", "u", true]]);

  test("a commit rings every subscriber, and nobody if there is none", async () => {
    const branch = await freshBranch();
    const heard = await listenTo(branch);
    await put(branch, "a");
    await branch.feed.subscribe({ uid: "u1", pipeline: "p1" });
    await branch.feed.subscribe({ uid: "u2", pipeline: "p2" });
    await put(branch, "b");
    await expect.poll(() => heard.rings.toSorted()).toEqual(["u1", "u2"]);
    expect(await outbox(branch)).toEqual([]);
  });

  test("a deletion rings; a commit without a change and one after unsubscribing do not", async () => {
    const branch = await freshBranch();
    const heard = await listenTo(branch);
    await put(branch, "a");
    await branch.feed.subscribe({ uid: "u", pipeline: "p" });
    await put(branch, "a");
    await branch.lifecycle.destroy();
    await expect.poll(() => heard.rings).toEqual(["u"]);
    await branch.lifecycle.create();
    await branch.feed.unsubscribe({ uid: "u" });
    await put(branch, "b");
    expect(await outbox(branch)).toEqual([]);
    expect(heard.rings).toEqual(["u"]);
  });

  test("a bell that could not be rung waits as one row, however many commits follow, and the alarm rings it", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "p" });
    const heard = await listenTo(branch);
    heard.reachable = false;
    for (const path of ["a", "b", "c"]) await put(branch, path);
    await triedInVain(branch);
    const { loops = [] } = (await branch.admin.loops()) ?? {};
    expect(loops).toContainEqual({
      ...{ name: "outbox (pipeline u)", state: "failing", due: expect.any(Number) },
      ...{ tries: expect.any(Number), error: "Error: unreachable" },
    });
    heard.reachable = true;
    await allTold(branch);
    expect(heard.rings).toEqual(["u"]);
    expect(await outbox(branch)).toEqual([]);
  });

  test("a bell that backed off rings at the next commit, at most once a second", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "p" });
    const heard = await listenTo(branch);
    heard.reachable = false;
    await put(branch, "a");
    await triedInVain(branch);
    // As if it had been tried so often, the last time so long ago.
    const backedOff = (agoMs: number, tries: number) =>
      runInDurableObject(branch, (_, { storage: { sql } }) => {
        const triedAt = Date.now() - agoMs;
        const due = triedAt + Math.min(1000 * 2 ** (tries - 1), 60_000);
        sql.exec("UPDATE outbox SET tries = ?, triedAt = ?, due = ?", tries, triedAt, due);
      });
    await backedOff(1500, 7);
    await put(branch, "b");
    await expect.poll(() => outbox(branch)).toMatchObject([{ tries: 8 }]);
    // Half a minute ahead, so that it does not become due in a pause of the machine.
    await backedOff(-30_000, 40);
    await put(branch, "c");
    const due = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      Number(sql.exec("SELECT due FROM outbox").one().due),
    );
    expect(due).toBeLessThanOrEqual(Date.now() + 31_000);
    expect(await outbox(branch)).toMatchObject([{ tries: 40 }]);
    heard.reachable = true;
    await backedOff(9000, 40);
    await put(branch, "d");
    await expect.poll(() => heard.rings).toEqual(["u"]);
    expect(await outbox(branch)).toEqual([]);
  });

  test("a bell that a crash cut off is rung by the alarm that was set with the commit", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "p" });
    const heard = await listenTo(branch);
    heard.reachable = false;
    await put(branch, "a");
    await triedInVain(branch);
    await runInDurableObject(branch, async (_, { storage }) => {
      expect(await storage.getAlarm()).not.toBeNull();
      // An hour ahead, so that it does not ring before somebody listens to the instance that comes.
      const later = Date.now() + 3_600_000;
      storage.sql.exec("UPDATE outbox SET due = ?", later);
      await storage.setAlarm(later);
    });
    await evictDurableObject(branch);
    const after = await listenTo(branch);
    await allTold(branch);
    expect(after.rings).toEqual(["u"]);
    expect(await outbox(branch)).toEqual([]);
  });
});
