import { describe, expect, test } from "vitest";
import { byteSource } from "../../../worker/blobs/body-reader.ts";
import { ByteBudget } from "../../../worker/blobs/budget.ts";
import type { BlobStore } from "../../../worker/blobs/port.ts";
import { CHUNK_BYTES, type WriteResult, writeContent } from "../../../worker/blobs/write-content.ts";
import { MIB, randomBytes, referenceDigest } from "./reference.ts";
import { pieces, stalledBody } from "./senders.ts";

describe("a byte budget", () => {
  test("admits in the order of asking: a small wish does not overtake a large one", async () => {
    const budget = new ByteBudget(10);
    const admitted: string[] = [];
    await budget.take(8);
    const large = budget.take(6).then(() => admitted.push("large"));
    const small = budget.take(1).then(() => admitted.push("small"));
    expect(budget.tryTake(1)).toBe(false);
    budget.give(1);
    await scheduler.wait(0);
    expect(admitted).toEqual([]);
    budget.give(7);
    await Promise.all([large, small]);
    expect(admitted).toEqual(["large", "small"]);
    expect(budget.free).toBe(3);
  });

  test("lets nobody wait while there is room", async () => {
    const budget = new ByteBudget(10);
    await budget.take(10);
    expect(budget.tryTake(1)).toBe(false);
    budget.give(10);
    expect(budget.tryTake(10)).toBe(true);
  });
});

describe("uploads that share a budget", () => {
  test.each([
    1, 4,
  ])("all end, however many there are and however slowly they come, and never hold more than it, with %i puts at once", async (putsAtOnce) => {
    const budget = new ByteBudget(2 * CHUNK_BYTES);
    let inFlight = 0;
    let mostInFlight = 0;
    const store: BlobStore = {
      ...noStore,
      putsAtOnce,
      async put(_name, bytes) {
        inFlight += bytes.length;
        mostInFlight = Math.max(mostInFlight, inFlight);
        await scheduler.wait(1);
        inFlight -= bytes.length;
      },
    };
    const bodies = Array.from({ length: 16 }, (_, index) => randomBytes(4097 + index * 300_000, index));
    const results = await Promise.all(
      bodies.map((bytes, index) =>
        write(slowBody(bytes, index), { store, budget, ...(index % 2 && { declaredSize: bytes.length }) }),
      ),
    );
    for (const [index, result] of results.entries()) {
      const bytes = bodies[index] as Uint8Array<ArrayBuffer>;
      expect(result).toMatchObject({ ok: true, content: { digest: await referenceDigest(bytes) } });
    }
    expect(mostInFlight).toBeLessThanOrEqual(2 * CHUNK_BYTES);
    expect(budget.free).toBe(2 * CHUNK_BYTES);
  });

  test("take none of it before their bytes come", async () => {
    const budget = new ByteBudget(CHUNK_BYTES);
    const silent = Array.from({ length: 50 }, () => stalledBody(randomBytes(4000, 1)));
    const waiting = silent.map(({ body }) => write(body, { budget, declaredSize: 1024 * MIB }));
    const busy = randomBytes(9 * MIB, 2);
    expect(await write(slowBody(busy, 1), { budget })).toMatchObject({ ok: true });
    expect(budget.free).toBe(CHUNK_BYTES);
    for (const { fail } of silent) fail();
    for (const result of await Promise.all(waiting))
      expect(result).toMatchObject({ reason: "incomplete-body" });
  });

  test("give back what they took when they stall or break off, so that others go on", async () => {
    const budget = new ByteBudget(2 * CHUNK_BYTES);
    const broken = Array.from({ length: 6 }, () => stalledBody(randomBytes(5 * MIB, 1)));
    const results = broken.map(({ body }) => write(body, { budget, idleMs: 50 }));
    const last = write(slowBody(randomBytes(9 * MIB, 2), 1), { budget });
    for (const result of await Promise.all(results))
      expect(result).toMatchObject({ reason: "request-timeout" });
    expect(await last).toMatchObject({ ok: true });
    expect(budget.free).toBe(2 * CHUNK_BYTES);
  });

  test.each([
    { store: "that says nothing", wanted: {}, chunks: 12, inFlight: 1, held: 2 },
    { store: "that wants four at once", wanted: { putsAtOnce: 4 }, chunks: 12, inFlight: 4, held: 5 },
    { store: "that does, when memory is short", wanted: { putsAtOnce: 4 }, chunks: 4, inFlight: 2, held: 2 },
  ])("have $inFlight chunks in flight and $held in memory while a store $store stands still", async ({
    wanted,
    chunks,
    inFlight,
    held,
  }) => {
    const budget = new ByteBudget(chunks * CHUNK_BYTES);
    const store = Promise.withResolvers<void>();
    let puts = 0;
    const put = () => {
      puts += 1;
      return store.promise;
    };
    const full = Promise.withResolvers<void>();
    let sent = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          controller.enqueue(new Uint8Array(MIB / 4));
          sent += MIB / 4;
          if (sent === 40 * MIB) controller.close();
          if (sent >= held * CHUNK_BYTES) full.resolve();
        },
      },
      { highWaterMark: 0 },
    );
    const result = write(body, { budget, store: { ...noStore, ...wanted, put } });
    await full.promise;
    await scheduler.wait(20);
    expect(sent).toBeLessThanOrEqual(held * CHUNK_BYTES + MIB / 4);
    expect(puts).toBe(inFlight);
    expect(budget.free).toBe((chunks - held) * CHUNK_BYTES);
    store.resolve();
    expect(await result).toMatchObject({ ok: true, content: { size: 40 * MIB } });
    expect(budget.free).toBe(chunks * CHUNK_BYTES);
  });

  test("hold no memory for chunks that wait to be flushed, which are flushed together while others are", async () => {
    const budget = new ByteBudget(2 * CHUNK_BYTES);
    const rounds: (readonly string[])[] = [];
    const flushed = Promise.withResolvers<void>();
    let puts = 0;
    const store: BlobStore = {
      ...noStore,
      put(name, _bytes, together) {
        puts += 1;
        together?.onTaken();
        const finishAll = (names: readonly string[]) => {
          rounds.push([...names]);
          return flushed.promise;
        };
        return together?.finish(name, finishAll) ?? Promise.reject(new Error("by itself"));
      },
    };
    const result = write(slowBody(randomBytes(11 * CHUNK_BYTES, 1), 1), { store, budget });
    await expect.poll(() => puts).toBe(9);
    await expect.poll(() => budget.free).toBe(CHUNK_BYTES);
    expect(rounds.map(({ length }) => length)).toEqual([1]);
    flushed.resolve();
    expect(await result).toMatchObject({ ok: true, content: { size: 11 * CHUNK_BYTES } });
    expect(puts).toBe(11);
    expect(rounds.slice(0, 2).map(({ length }) => length)).toEqual([1, 8]);
    expect(new Set(rounds.flat()).size).toBe(11);
    expect(budget.free).toBe(2 * CHUNK_BYTES);
  });

  test.each([1, 9])("fail if the %ith of their chunks can't be flushed", async (bad) => {
    const budget = new ByteBudget(2 * CHUNK_BYTES);
    const put: string[] = [];
    const finishAll = async (names: readonly string[]) => {
      if (names.includes(put[bad - 1] ?? "")) throw new Error("the disk is broken");
    };
    const store: BlobStore = {
      ...noStore,
      async put(name, _bytes, together) {
        put.push(name);
        together?.onTaken();
        await together?.finish(name, finishAll);
      },
    };
    const body = slowBody(randomBytes(9 * CHUNK_BYTES, 1), 1);
    await expect(write(body, { store, budget })).rejects.toThrow("the disk is broken");
    expect(budget.free).toBe(2 * CHUNK_BYTES);
  });
});

const noStore: BlobStore = {
  put: async () => {},
  get: () => Promise.reject(new Error("not to be called")),
  delete: () => Promise.reject(new Error("not to be called")),
  list: () => Promise.reject(new Error("not asked")),
};

function write(
  body: ReadableStream<Uint8Array>,
  options: { budget: ByteBudget; store?: BlobStore; declaredSize?: number; idleMs?: number },
): Promise<WriteResult> {
  return writeContent(byteSource(body), {
    store: noStore,
    openUpload: async () => ({ upload: "master.repo.01U", uid: "u" }),
    now: Date.now,
    idleMs: 60_000,
    ...options,
  });
}

/** A body whose pieces come one by one, each in a turn of its own, so that the uploads take turns. */
function slowBody(bytes: Uint8Array, seed: number): ReadableStream<Uint8Array> {
  const source = pieces(bytes, seed);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      await scheduler.wait(0);
      const { done, value } = source.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}
