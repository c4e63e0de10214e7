import { env } from "cloudflare:test";
import { beforeAll, describe, expect, test } from "vitest";
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
