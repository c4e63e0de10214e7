import { env, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Engine } from "../../../worker/objects/engine.ts";
import { OutboxDispatcher, OutboxStore, type Send } from "../../../worker/objects/outbox.ts";
import { OUTBOX } from "../../../worker/objects/outbox-table.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { Transactions } from "../../../worker/objects/transaction.ts";
import { yieldToOthers } from "../../../worker/objects/turns.ts";

type Name = "one" | "other";

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

let objects = 0;

/** The storage of an object that has an outbox and nothing else. */
async function withStorage(work: (storage: DurableObjectStorage) => Promise<void>): Promise<void> {
  const stub = env.BRANCH.getByName(`outbox-${++objects}`) as unknown as DurableObjectStub<undefined>;
  await runInDurableObject(stub, async (_, { storage }) => {
    storage.sql.exec(OUTBOX);
    await work(storage);
  });
}

/** Takes all that it is told. */
const hears: Send = async () => {};

/** One instance of an object, with a clock of its own: its outbox, and who has heard what. */
function instanceOn(storage: DurableObjectStorage, receivers: Partial<Record<Name, Send>> = {}) {
  const clock = { now: 1_000_000, alarm: null as number | null };
  const now = () => clock.now;
  const transactions = new Transactions({ storage, forget: () => {} });
  const outbox = new OutboxStore<Name>(new Sql(storage.sql, (loop, at) => transactions.wake(loop, at)));
  const ledger = { outbox, transaction: transactions.run.bind(transactions) };
  const object = () => "an object";
  const heard: string[] = [];
  const told = (name: Name) => async (uid: string) => {
    heard.push(`${name} ${uid}`.trim());
    return await (receivers[name] ?? hears)(uid);
  };
  const both = { one: told("one"), other: told("other") };
  const dispatcher = new OutboxDispatcher<Name>({ object, now, ledger, receivers: both });
  const engine = new Engine({
    ...{ object, now },
    exists: () => true,
    storage: {
      async setAlarm(at) {
        clock.alarm = Number(at);
      },
      async deleteAlarm() {
        clock.alarm = null;
      },
    },
    loops: [dispatcher],
  });
  transactions.listener = (woken) => engine.woken(woken);
  let events = 0;
  const mark = (name: Name, uid = "") =>
    ledger.transaction(() => outbox.mark(name, { uid, event: `${++events}`, due: clock.now }));
  const rests = () => engine.resting("outbox") ?? Promise.resolve();
  return { clock, outbox, dispatcher, engine, heard, mark, rests };
}

test("a receiver that can't be reached is tried later and later and says why, while another is told", () =>
  withStorage(async (storage) => {
    let isAway = true;
    const { clock, engine, heard, mark, rests } = instanceOn(storage, {
      one: async () => {
        if (isAway) throw new Error("it is away");
      },
    });
    mark("one", "a");
    mark("other");
    await rests();
    expect(heard).toEqual(["one a", "other"]);
    const [loop, receiver, ...more] = engine.standing();
    expect(loop).toMatchObject({ name: "outbox", state: "due", tries: 0, due: clock.now + 1000 });
    expect(receiver).toEqual({
      ...{ name: "outbox (one a)", state: "failing", due: clock.now + 1000 },
      ...{ tries: 1, error: "Error: it is away" },
    });
    expect(more).toEqual([]);
    expect(clock.alarm).toBe(clock.now + 1000);
    // Others are told meanwhile, and it is not tried before its time.
    mark("other");
    await rests();
    expect(heard).toEqual(["one a", "other", "other"]);
    for (const waitMs of [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
      clock.now = clock.alarm ?? 0;
      await engine.alarm();
      expect(clock.alarm).toBe(clock.now + waitMs);
    }
    isAway = false;
    clock.now = clock.alarm ?? 0;
    await engine.alarm();
    expect(engine.standing()).toEqual([{ name: "outbox", state: "idle", due: null, tries: 0, error: null }]);
    expect(clock.alarm).toBeNull();
  }));

test("a receiver that can't be reached is tried again with the next news, at most once a second", () =>
  withStorage(async (storage) => {
    const { clock, heard, mark, rests } = instanceOn(storage, {
      one: async () => {
        throw new Error("it is away");
      },
    });
    for (const [agoMs, tries] of [
      [0, 1],
      [999, 1],
      [1, 2],
      [999, 2],
      [1, 3],
    ] as const) {
      clock.now += agoMs;
      mark("one");
      await rests();
      expect(heard.length).toBe(tries);
    }
  }));

test("what is marked again while its receiver is told is told again", () =>
  withStorage(async (storage) => {
    const arrived = Promise.withResolvers<void>();
    const goesOn = Promise.withResolvers<void>();
    const { heard, mark, rests, outbox } = instanceOn(storage, {
      async one() {
        arrived.resolve();
        await goesOn.promise;
      },
    });
    mark("one");
    await arrived.promise;
    mark("one");
    goesOn.resolve();
    await rests();
    expect(heard).toEqual(["one", "one"]);
    expect(outbox.find("one")).toBeUndefined();
  }));

test("what was told before a crash and not acknowledged is told again by the next instance", () =>
  withStorage(async (storage) => {
    const arrived = Promise.withResolvers<void>();
    const dying = instanceOn(storage, {
      async one() {
        arrived.resolve();
        await new Promise(() => {});
      },
    });
    dying.mark("one", "a");
    await arrived.promise;
    expect(dying.clock.alarm).not.toBeNull();
    const next = instanceOn(storage);
    await next.engine.alarm();
    expect(next.heard).toEqual(["one a"]);
    expect(next.outbox.find("one", "a")).toBeUndefined();
    expect(next.clock.alarm).toBeNull();
  }));

test("a receiver that hangs keeps no other waiting, not even what is marked later", () =>
  withStorage(async (storage) => {
    const { heard, mark, outbox } = instanceOn(storage, { one: () => new Promise(() => {}) });
    mark("one");
    await expect.poll(() => heard).toEqual(["one"]);
    mark("other");
    await expect.poll(() => heard).toEqual(["one", "other"]);
    await expect.poll(() => outbox.find("other")).toBeUndefined();
    expect(outbox.find("one")).toBeDefined();
  }));

test("no more than twenty are told at the same time by the loop, however many hang and whatever calls tell besides", () =>
  withStorage(async (storage) => {
    const hang = Promise.withResolvers<undefined>();
    const send: Send = () => hang.promise;
    const { dispatcher, heard, mark, rests } = instanceOn(storage, { one: send, other: send });
    for (let n = 0; n < 60; n++) mark("one", `${n}`);
    await expect.poll(() => heard.length).toBe(20);
    const calls = ["a", "b"].map((uid) => {
      mark("other", uid);
      return dispatcher.flush("other", uid);
    });
    await expect.poll(() => heard.length).toBe(22);
    // The loop looks again, and has no right to begin more.
    for (let n = 0; n < 3; n++) {
      mark("one", "0");
      await yieldToOthers();
    }
    expect(heard.length).toBe(22);
    hang.resolve(undefined);
    await Promise.all(calls);
    await rests();
    expect(new Set(heard).size).toBe(62);
  }));

test("a receiver that could not be told all at once is told the rest at once", () =>
  withStorage(async (storage) => {
    let left = 3;
    const { heard, mark, rests, outbox } = instanceOn(storage, { one: async () => () => --left === 0 });
    mark("one");
    await rests();
    expect(heard).toEqual(["one", "one", "one"]);
    expect(outbox.find("one")).toBeUndefined();
  }));

test("a call that waits for a receiver hears whether it knows all that was marked before", () =>
  withStorage(async (storage) => {
    let isAway = true;
    const { dispatcher, heard, mark, rests, outbox } = instanceOn(storage, {
      async one() {
        await scheduler.wait(1);
        if (isAway) throw new Error("it is away");
      },
    });
    expect(await dispatcher.flush("one")).toBe(true);
    expect(heard).toEqual([]);
    mark("one");
    expect(await dispatcher.flush("one")).toBe(false);
    isAway = false;
    expect(await Promise.all([dispatcher.flush("one"), dispatcher.flush("one")])).toEqual([true, true]);
    await rests();
    expect(outbox.find("one")).toBeUndefined();
  }));

test("marking what is marked already writes nothing, unless it is another event or due sooner", () =>
  withStorage(async (storage) => {
    const statements = vi.spyOn(Sql.prototype, "execute");
    const { outbox } = instanceOn(storage);
    const written = (event: string, due: number) => {
      statements.mockClear();
      outbox.mark("one", { event, due });
      return (statements.mock.results[0]?.value as SqlStorageCursor<never>).rowsWritten > 0;
    };
    const later = 2_000_000;
    expect(written("a", later)).toBe(true);
    expect(written("a", later)).toBe(false);
    expect(written("a", later + 1)).toBe(false);
    expect(written("b", later)).toBe(true);
    expect(written("b", later - 1)).toBe(true);
  }));
