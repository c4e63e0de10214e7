import { env } from "cloudflare:test";
import { beforeAll, describe, expect, test } from "vitest";
import { ByteBudget } from "../../../worker/blobs/budget.ts";
import type { Body, Chunk } from "../../../worker/blobs/content.ts";
import { ChunkList } from "../../../worker/blobs/manifest.ts";
import type { BlobStore, ByteRange } from "../../../worker/blobs/port.ts";
import { readContent } from "../../../worker/blobs/read/read-content.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import { seededRandom } from "../../support/random.ts";
import { MemoryStore } from "./memory-store.ts";
import { randomBytes, sameBytes } from "./reference.ts";

const store = new R2BlobStore(env.BLOBS);
const LENGTHS = [1, 70_000, 3, 4096, 12_345, 1, 99_999, 500];
const SIZE = LENGTHS.reduce((sum, length) => sum + length, 0);
const bytes = randomBytes(SIZE, 1);
const BODIES: Record<string, Body> = {};

async function bytesOf(body: Body, range?: ByteRange): Promise<Uint8Array> {
  const content = await readContent(store, { body, size: SIZE, hold: null, ...(range && { range }) });
  return new Uint8Array(await new Response(content).arrayBuffer());
}

/** Chunks of odd lengths, each somewhere inside a blob of its own. */
beforeAll(async () => {
  const chunks: Chunk[] = [];
  let start = 0;
  for (const [index, length] of LENGTHS.entries()) {
    const offset = index * 7;
    const blob = `read/${index}.U`;
    await store.put(
      blob,
      Uint8Array.from([...randomBytes(offset, 2), ...bytes.slice(start, start + length), 1, 2, 3]),
    );
    chunks.push({ blob, offset, length, leaves: "" });
    start += length;
  }
  BODIES.chunks = { kind: "chunks", chunks };
  BODIES.inline = { kind: "inline", bytes };
  BODIES.manifest = await manifestOf(chunks);
});

async function manifestOf(chunks: readonly Chunk[]): Promise<Body> {
  let pages = 0;
  const counting: BlobStore = {
    get: (name, range) => store.get(name, range),
    delete: (names) => store.delete(names),
    list: (request) => store.list(request),
    put(name, json) {
      pages++;
      return store.put(name, json);
    },
  };
  const owner = { uid: "uid", upload: "master.repo.READ", write: "0badcafe" };
  const list = new ChunkList({ bound: 150, store: counting, owner });
  for (const chunk of chunks) await list.add(chunk);
  const body = await list.finish();
  expect(pages).toBeGreaterThan(2);
  return body;
}

describe.each(["chunks", "inline", "manifest"])("content kept as %s", (kind) => {
  const body = (): Body => BODIES[kind] as Body;

  test("is read whole", async () => {
    expect(sameBytes(await bytesOf(body()), bytes)).toBe(true);
  });

  test("is read in any range, within chunks and across them", async () => {
    const random = seededRandom(42);
    for (let turn = 0; turn < 60; turn++) {
      const offset = Math.floor(random() * SIZE);
      const length = Math.floor(random() ** 2 * (SIZE - offset + 1));
      const range = await bytesOf(body(), { offset, length });
      expect(sameBytes(range, bytes.slice(offset, offset + length)), `bytes ${offset}+${length}`).toBe(true);
    }
  });

  test("is read at every border of its chunks", async () => {
    let border = 0;
    for (const length of LENGTHS) {
      for (const [offset, count] of [
        [border, length],
        [border, 1],
        [Math.max(0, border - 1), 2],
        [border + length - 1, 1],
      ] as const)
        expect(
          sameBytes(await bytesOf(body(), { offset, length: count }), bytes.slice(offset, offset + count)),
        ).toBe(true);
      border += length;
    }
  });
});

describe("content whose blobs are not there", () => {
  const chunk = (blob: string): Chunk => ({ blob, offset: 0, length: 1, leaves: "" });
  const chunks = (...blobs: string[]): Body => ({ kind: "chunks", chunks: blobs.map(chunk) });

  test("is refused where the first one is missing, while the answer can still say so", async () => {
    const body = chunks("read/none.U", "read/0.U");
    await expect(readContent(store, { body, size: 2, hold: null })).rejects.toThrow("read/none.U");
  });

  test("breaks off where a later one is missing, and never looks whole", async () => {
    const body = chunks("read/0.U", "read/none.U", "read/0.U");
    const response = new Response(await readContent(store, { body, size: 3, hold: null }));
    await expect(response.arrayBuffer()).rejects.toThrow("read/none.U");
  });

  test("breaks off where a blob is too short", async () => {
    const short: Body = {
      kind: "chunks",
      chunks: [chunk("read/0.U"), { ...chunk("read/0.U"), length: 5000 }],
    };
    const response = new Response(await readContent(store, { body: short, size: 5001, hold: null }));
    await expect(response.arrayBuffer()).rejects.toThrow("read/0.U");
  });

  test("is refused where its manifest is missing", async () => {
    const body: Body = { kind: "manifest", blob: "read/no-manifest.U", length: 2 };
    await expect(readContent(store, { body, size: 1, hold: null })).rejects.toThrow("no-manifest");
  });
});

describe("a range", () => {
  test("asks the store for its own bytes of its own chunks, and for nothing else", async () => {
    const memory = new MemoryStore();
    const chunks = ["a", "b", "c"].map((blob) => ({ blob, offset: 5, length: 100, leaves: "" }));
    for (const { blob } of chunks) await memory.put(blob, randomBytes(200, 1));
    const asked = async (offset: number, length: number) => {
      memory.gets = [];
      const content = { body: { kind: "chunks", chunks } as const, size: 300, hold: null };
      const read = await readContent(memory, { ...content, range: { offset, length } });
      expect((await new Response(read).arrayBuffer()).byteLength).toBe(length);
      return memory.gets.map(({ name, range }) => [name, range.offset, range.length]);
    };
    expect(await asked(150, 10)).toEqual([["b", 55, 10]]);
    expect(await asked(100, 100)).toEqual([["b", 5, 100]]);
    expect(await asked(199, 2)).toEqual([
      ["b", 104, 1],
      ["c", 5, 1],
    ]);
    expect(await asked(50, 250)).toEqual([
      ["a", 55, 50],
      ["b", 5, 100],
      ["c", 5, 100],
    ]);
  });
});

describe("a reader", () => {
  test("that goes away stops the reading, and no more than the next blob was opened", async () => {
    const opened: string[] = [];
    const cancelled = Promise.withResolvers<void>();
    const endless: BlobStore = {
      put: (name, bytes) => store.put(name, bytes),
      delete: (names) => store.delete(names),
      list: (request) => store.list(request),
      async get(name) {
        opened.push(name);
        return new ReadableStream<Uint8Array>({
          pull: (controller) => controller.enqueue(new Uint8Array(1000)),
          cancel: () => cancelled.resolve(),
        });
      },
    };
    const length = 1_000_000;
    const chunks = ["a", "b", "c", "d"].map((blob) => ({ blob, offset: 0, length, leaves: "" }));
    const content = { body: { kind: "chunks", chunks } as const, size: 4 * length, hold: null };
    const body = await readContent(endless, content);
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await reader.cancel();
    await cancelled.promise;
    expect(opened).toEqual(["a", "b"]);
  });
});

describe("blobs that are opened early", () => {
  const MIB = 1024 * 1024;
  const BLOBS = Array.from({ length: 12 }, (_, index) => `ahead/${index}.U`);
  const CONTENT = {
    body: { kind: "chunks", chunks: BLOBS.map((blob) => ({ blob, offset: 0, length: MIB, leaves: "" })) },
    size: BLOBS.length * MIB,
    hold: null,
  } as const;

  beforeAll(async () => {
    for (const [index, blob] of BLOBS.entries()) await store.put(blob, new Uint8Array(MIB).fill(index));
  });

  /** The bucket, which answers for all blobs but the first one only when `go` is called. */
  function stalling({ readsAhead }: { readsAhead?: number } = {}) {
    const { promise, resolve: go } = Promise.withResolvers<void>();
    const asked: string[] = [];
    const here = new Set<string>();
    const open = new Set<string>();
    const stalled: BlobStore = {
      ...(readsAhead !== undefined && { readsAhead }),
      put: (name, blob) => store.put(name, blob),
      delete: (names) => store.delete(names),
      list: (request) => store.list(request),
      async get(name, range) {
        asked.push(name);
        open.add(name);
        if (name !== BLOBS[0]) await promise;
        const stream = await store.get(name, range);
        const reader = stream?.getReader();
        here.add(name);
        const source: UnderlyingSource<Uint8Array> = {
          async pull(controller) {
            const step = await reader?.read();
            if (step?.value) return controller.enqueue(step.value);
            open.delete(name);
            controller.close();
          },
          async cancel() {
            await reader?.cancel();
            open.delete(name);
          },
        };
        return new ReadableStream(source, { highWaterMark: 0 });
      },
    };
    return { store: stalled, asked, here, open, go };
  }

  /** Somebody who reads an answer as far as one likes. */
  async function readerOf(store: BlobStore, budget: ByteBudget) {
    const body = (await readContent(store, { ...CONTENT, budget })) as ReadableStream<
      Uint8Array<ArrayBuffer>
    >;
    const reader = body.getReader({ mode: "byob" });
    const read = async (length: number): Promise<Uint8Array> => {
      const { value } = await reader.readAtLeast(length, new Uint8Array(length));
      return value ?? new Uint8Array(0);
    };
    return { read, leave: () => reader.cancel() };
  }

  /** Whatever the reading has begun goes on as far as it can. */
  const settled = () => env.BLOBS.head("none");

  test.each([
    { what: "that says nothing", wanted: {}, mebibytes: 24, ahead: 1 },
    { what: "that wants four ahead", wanted: { readsAhead: 4 }, mebibytes: 24, ahead: 4 },
    { what: "that does, when memory is short", wanted: { readsAhead: 4 }, mebibytes: 1, ahead: 1 },
    { what: "that does, when there is memory for one", wanted: { readsAhead: 4 }, mebibytes: 2, ahead: 2 },
  ])("are $ahead while a store $what stalls, and all bytes come when it goes on", async ({
    wanted,
    mebibytes,
    ahead,
  }) => {
    const budget = new ByteBudget(mebibytes * MIB);
    const { store, asked, open, go } = stalling(wanted);
    const { read } = await readerOf(store, budget);
    await read(MIB);
    await expect.poll(() => open.size).toBe(1 + ahead);
    await settled();
    expect([...open]).toEqual(BLOBS.slice(1, 2 + ahead));
    expect(budget.free).toBe((mebibytes - (ahead - 1)) * MIB);
    go();
    for (const index of BLOBS.keys()) {
      if (index > 0) expect(sameBytes(await read(MIB), new Uint8Array(MIB).fill(index))).toBe(true);
    }
    expect((await read(1)).length).toBe(0);
    expect(asked).toEqual(BLOBS);
    expect(budget.free).toBe(mebibytes * MIB);
  });

  test("are one as long as each is there at its turn, and one again when all have come early", async () => {
    const { store, asked, here, go } = stalling({ readsAhead: 4 });
    const { read } = await readerOf(store, new ByteBudget(24 * MIB));
    await read(1);
    await settled();
    expect(asked).toEqual(BLOBS.slice(0, 2));
    await read(MIB - 1);
    await expect.poll(() => asked.length).toBe(6);
    go();
    await expect.poll(() => here.size).toBe(6);
    await read(4 * MIB + 1);
    await settled();
    expect(asked).toEqual(BLOBS.slice(0, 7));
  });

  test("are given back if the reader leaves, at once if they have come", async () => {
    const budget = new ByteBudget(24 * MIB);
    const { store, asked, open, go } = stalling({ readsAhead: 4 });
    const { read, leave } = await readerOf(store, budget);
    await read(MIB);
    await expect.poll(() => asked.length).toBe(6);
    go();
    await read(1);
    expect(open.size).toBe(5);
    expect(budget.free).toBe(21 * MIB);
    await leave();
    await expect.poll(() => open.size).toBe(0);
    expect(budget.free).toBe(24 * MIB);
    expect(asked).toEqual(BLOBS.slice(0, 6));
  });

  test("are given back if the reader leaves while none has come, as they come", async () => {
    const budget = new ByteBudget(24 * MIB);
    const { store, asked, open, go } = stalling({ readsAhead: 4 });
    const { read, leave } = await readerOf(store, budget);
    await read(MIB);
    await expect.poll(() => asked.length).toBe(6);
    await leave();
    go();
    await expect.poll(() => open.size).toBe(0);
    expect(budget.free).toBe(24 * MIB);
    expect(asked).toEqual(BLOBS.slice(0, 6));
  });

  test("are given back if one of them is missing", async () => {
    const budget = new ByteBudget(24 * MIB);
    const { store: stalled, open, go } = stalling({ readsAhead: 4 });
    const broken: BlobStore = {
      ...stalled,
      get: async (name, range) => (name === BLOBS[3] ? null : await stalled.get(name, range)),
    };
    const { read } = await readerOf(broken, budget);
    await read(MIB);
    await expect.poll(() => open.size).toBe(4);
    go();
    await read(2 * MIB);
    await expect(read(MIB)).rejects.toThrow(BLOBS[3]);
    await expect.poll(() => open.size).toBe(0);
    expect(budget.free).toBe(24 * MIB);
  });

  test("are given back if one of them is missing and the others never come", async () => {
    const budget = new ByteBudget(24 * MIB);
    const { store: stalled, asked, go } = stalling({ readsAhead: 4 });
    const { promise, resolve } = Promise.withResolvers<null>();
    const broken: BlobStore = {
      ...stalled,
      get: (name, range) => (name === BLOBS[1] ? promise : stalled.get(name, range)),
    };
    const { read } = await readerOf(broken, budget);
    await read(MIB);
    await expect.poll(() => asked.length).toBe(5);
    expect(budget.free).toBe(21 * MIB);
    resolve(null);
    await expect(read(MIB)).rejects.toThrow(BLOBS[1]);
    expect(budget.free).toBe(24 * MIB);
    go();
  });
});
