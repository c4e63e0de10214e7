import { describe, expect, test } from "vitest";
import { LEAF_BYTES, treeRoot } from "../../../protocol/digest.ts";
import { byteSource } from "../../../worker/blobs/body-reader.ts";
import { ByteBudget } from "../../../worker/blobs/budget.ts";
import {
  type ComposeOptions,
  composeContent,
  type Slice,
} from "../../../worker/blobs/compose/compose-content.ts";
import type { Chunk, Content } from "../../../worker/blobs/content.ts";
import { encodeLeaves } from "../../../worker/blobs/hash/leaves.ts";
import { sha256 } from "../../../worker/blobs/hash/tree-stack.ts";
import { readContent } from "../../../worker/blobs/read/read-content.ts";
import { CHUNK_BYTES, writeContent } from "../../../worker/blobs/write-content.ts";
import { CHECKSUM_ALGORITHMS } from "../../../worker/core/checksums.ts";
import { seededRandom } from "../../support/random.ts";
import { REST } from "../../support/suite.ts";
import { checksumOf } from "./checksums.ts";
import { MemoryStore } from "./memory-store.ts";
import { hex, MIB, randomBytes, referenceDigest, sameBytes } from "./reference.ts";

const owner = { uid: "uid-1", upload: "master.repo.01COMPOSE" };
const budget = new ByteBudget(2 * CHUNK_BYTES);
let writes = 0;

type Bytes = Uint8Array<ArrayBuffer>;

async function write(
  store: MemoryStore,
  bytes: Bytes,
  options: { manifestBound?: number; inline?: "never" } = {},
) {
  const written = await writeContent(byteSource(new Blob([bytes]).stream()), {
    store,
    openUpload: async () => ({ upload: `master.repo.01W${writes++}`, uid: "uid-1" }),
    now: Date.now,
    idleMs: 60_000,
    budget,
    ...options,
  });
  if (!written.ok) throw new Error(written.reason);
  return written.content;
}

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

function compose(store: MemoryStore, slices: readonly Slice[], options: Partial<ComposeOptions> = {}) {
  return composeContent(each(slices), { store, owner, budget, ...options });
}

async function parts(store: MemoryStore, bytes: Bytes, sizes: Iterable<number>): Promise<Content[]> {
  const contents: Content[] = [];
  let at = 0;
  for (const size of sizes) {
    if (at >= bytes.length) break;
    contents.push(await write(store, bytes.subarray(at, at + size), { inline: "never" }));
    at += size;
  }
  return contents;
}

function* always(size: number): Generator<number> {
  for (;;) yield size;
}

async function readBack(store: MemoryStore, content: Content): Promise<Bytes> {
  return new Uint8Array(
    await new Response(await readContent(store, { ...content, hold: null })).arrayBuffer(),
  );
}

interface Source {
  readonly content: Content;
  readonly bytes: Bytes;
}

const EDGES = [0, 1, 4096, 4097, MIB - 1, MIB, MIB + 1, 2 * MIB, CHUNK_BYTES, 5 * MIB, 5 * MIB + 7];

function below(random: () => number, bound: number): number {
  return Math.floor(random() * bound);
}

async function randomSources(store: MemoryStore, random: () => number): Promise<Source[]> {
  const sources: Source[] = [];
  for (let index = 0; index < 4; index++) {
    const size = random() < 0.5 ? EDGES[below(random, EDGES.length)] : below(random, 6 * MIB);
    const bytes = randomBytes(size ?? 0, below(random, 1e9));
    const content = await write(store, bytes, random() < 0.4 ? { manifestBound: 1 } : {});
    sources.push({ content, bytes });
  }
  return sources;
}

/** One of the sources, whole or a range of it, which begins at a leaf or anywhere. */
function randomCut(
  sources: readonly Source[],
  random: () => number,
): { slice: Slice; bytes: Uint8Array<ArrayBuffer> } {
  const { content, bytes } = sources[below(random, sources.length)] as Source;
  if (random() < 0.4) return { slice: content, bytes };
  const unit = random() < 0.5 ? MIB : 1;
  const offset = below(random, bytes.length / unit + 1) * unit;
  const length = below(random, bytes.length - offset + 1);
  return { slice: { ...content, range: { offset, length } }, bytes: bytes.subarray(offset, offset + length) };
}

async function joined(pieces: readonly Bytes[]): Promise<Bytes> {
  return new Uint8Array(await new Blob([...pieces]).arrayBuffer());
}

describe("content that is put together from others", () => {
  test("is what their joined bytes are, whatever they are cut from and however they lie", async () => {
    const seed = Date.now() % 1_000_000;
    const random = seededRandom(seed);
    for (let turn = 0; turn < 8; turn++) {
      const store = new MemoryStore();
      const sources = await randomSources(store, random);
      // The second round also takes slices of what the first one put together.
      for (let round = 0; round < 2; round++) {
        const cuts = Array.from({ length: below(random, 7) }, () => randomCut(sources, random));
        const bytes = await joined(cuts.map((cut) => cut.bytes));
        const checksum = [...CHECKSUM_ALGORITHMS, undefined, undefined][
          below(random, CHECKSUM_ALGORITHMS.length + 2)
        ];
        const composed = await compose(
          store,
          cuts.map(({ slice }) => slice),
          { ...(checksum && { checksum }), ...(random() < 0.4 && { manifestBound: 300 }) },
        );
        expect(composed.content, `seed ${seed}`).toMatchObject({
          digest: await referenceDigest(bytes),
          size: bytes.length,
        });
        expect(composed.checksum).toBe(checksum ? checksumOf(checksum, bytes) : null);
        expect(sameBytes(await readBack(store, composed.content), bytes), `seed ${seed}`).toBe(true);
        sources.push({ content: composed.content, bytes });
      }
    }
    expect(budget.free).toBe(2 * CHUNK_BYTES);
  });

  test(
    "of 100 MiB has one name, by PUT, by parts of any size, by ranges, and through a manifest",
    REST,
    async () => {
      const bytes = randomBytes(100 * MIB, 1);
      let store = new MemoryStore();
      const whole = await write(store, bytes);
      const { digest, size } = whole;
      expect(digest).toBe(await referenceDigest(bytes));
      const cuts = [0, 7 * MIB, 7 * MIB + 1, 33_333_333, 70 * MIB, 100 * MIB];
      const ranges = cuts.slice(1).map((end, index) => {
        const offset = cuts[index] ?? 0;
        return { ...whole, range: { offset, length: end - offset } };
      });
      expect((await compose(store, ranges)).content).toMatchObject({ digest, size });
      for (const partBytes of [5 * MIB, 8 * MIB, 6_000_001]) {
        store = new MemoryStore();
        const slices = await parts(store, bytes, always(partBytes));
        const { content } = await compose(store, slices, { manifestBound: 2000 });
        expect({ ...content, kind: content.body.kind }).toMatchObject({ digest, size, kind: "manifest" });
        expect(sameBytes(await readBack(store, content), bytes)).toBe(true);
      }
    },
  );

  test("is not taken for a small one that has the same digest: the two leaf hashes of a large one", async () => {
    const store = new MemoryStore();
    const bytes = randomBytes(2 * MIB, 4);
    const { content } = await compose(store, await parts(store, bytes, always(MIB)));
    const leaves = [sha256(bytes.subarray(0, MIB)), sha256(bytes.subarray(MIB))];
    const crafted = await write(store, Uint8Array.from(leaves.flatMap((leaf) => [...leaf])));
    expect(crafted.digest).toBe(content.digest);
    expect(crafted.size).not.toBe(content.size);
  });

  test("of nothing is empty", async () => {
    const store = new MemoryStore();
    const empty = await write(store, new Uint8Array(0), { inline: "never" });
    for (const slices of [[], [empty], [{ ...empty, range: { offset: 0, length: 0 } }]]) {
      const { content } = await compose(store, slices);
      expect(content).toEqual({
        digest: await referenceDigest(new Uint8Array(0)),
        size: 0,
        body: { kind: "chunks", chunks: [] },
      });
    }
  });

  test("refers to the bytes where they are, and only what was inline gets a blob", async () => {
    const store = new MemoryStore();
    const [large, small] = [await write(store, randomBytes(MIB, 1)), await write(store, randomBytes(100, 2))];
    const before = [...store.blobs.keys()];
    const { content } = await compose(store, [large, small]);
    if (content.body.kind !== "chunks") throw new Error(content.body.kind);
    const [first, second] = content.body.chunks;
    expect(before).toContain(first?.blob);
    expect([...store.blobs.keys()].filter((name) => !before.includes(name))).toEqual([second?.blob]);
    expect(second?.blob).toMatch(/^b\/..\/uid-1\/.*-100\.[0-9a-f]{8}\.01COMPOSE$/);
  });

  test("keeps leaf hashes of just the chunks that begin at one of its leaves", async () => {
    const store = new MemoryStore();
    const slices = await parts(store, randomBytes(12 * MIB, 1), [
      5 * MIB,
      MIB / 2,
      3 * MIB,
      MIB / 2,
      3 * MIB,
    ]);
    const { content } = await compose(store, slices);
    if (content.body.kind !== "chunks") throw new Error(content.body.kind);
    expect(content.body.chunks.map(({ leaves }) => leaves !== null)).toEqual([
      true,
      true,
      true,
      false,
      false,
      true,
    ]);
  });
});

describe("putting a content together", () => {
  test("reads no bytes where the leaves fall on leaves, however long it is", async () => {
    const store = new MemoryStore();
    const leaf = sha256(new Uint8Array(1));
    const chunk: Chunk = {
      blob: "b/none",
      offset: 0,
      length: 16 * MIB,
      leaves: encodeLeaves(Array(16).fill(leaf)),
    };
    const slice: Slice = { body: { kind: "chunks", chunks: Array(4).fill(chunk) }, size: 64 * MIB };
    const { content } = await compose(store, Array(500).fill(slice));
    expect(content.size).toBe(500 * 64 * MIB);
    expect(content.digest).toBe(hex(treeRoot(Array(500 * 64).fill(leaf), sha256)));
    expect(content.body.kind).toBe("manifest");
    expect(store.chunkBytesRead).toBe(0);
  });

  test("reads no bytes of an odd last part, and of a range just what it cuts off a leaf", async () => {
    const store = new MemoryStore();
    const bytes = randomBytes(11 * MIB + 5, 2);
    const slices = await parts(store, bytes, [8 * MIB, 4 * MIB]);
    const { content } = await compose(store, slices);
    expect(content.digest).toBe(await referenceDigest(bytes));
    expect(store.gets).toEqual([]);
    const range = { offset: MIB, length: 5 * MIB + 100 };
    const cut = await compose(store, [{ ...content, range }]);
    expect(cut.content.digest).toBe(await referenceDigest(bytes.slice(MIB, 6 * MIB + 100)));
    expect(store.chunkBytesRead).toBe(100);
  });

  test("reads all bytes once where a checksum is wanted", async () => {
    const store = new MemoryStore();
    const slices = await parts(store, randomBytes(10 * MIB + 5, 2), [8 * MIB, MIB + 1, MIB + 4]);
    await compose(store, slices, { checksum: "CRC64NVME" });
    expect(store.chunkBytesRead).toBe(10 * MIB + 5);
  });

  test("holds one leaf of the budget while it reads, and nothing after it, also when the store fails", async () => {
    const store = new MemoryStore();
    const tight = new ByteBudget(LEAF_BYTES);
    const slices = await parts(store, randomBytes(13 * MIB, 3), always(MIB + 1));
    const composed = await Promise.all([1, 2, 3].map(() => compose(store, slices, { budget: tight })));
    expect(new Set(composed.map(({ content }) => content.digest)).size).toBe(1);
    store.getsUntilFailure = store.gets.length + 5;
    await expect(compose(store, slices, { budget: tight })).rejects.toThrow("the store is down");
    expect(tight.free).toBe(LEAF_BYTES);
  });

  test("fails where a blob is missing or too short, and names it", async () => {
    const chunk: Chunk = { blob: "b/gone", offset: 0, length: 10, leaves: null };
    const slice: Slice = { body: { kind: "chunks", chunks: [chunk] }, size: 10 };
    const store = new MemoryStore();
    await expect(compose(store, [slice])).rejects.toThrow("b/gone");
    await store.put("b/gone", new Uint8Array(9));
    await expect(compose(store, [slice])).rejects.toThrow("b/gone");
  });
});

describe("putting a content together with progress", () => {
  const bytes = randomBytes(20 * MIB + 77, 8);
  const saveEvery = MIB;

  async function odd(store: MemoryStore): Promise<Content[]> {
    return await parts(store, bytes, always(3 * MIB + 7));
  }

  function savedTexts(): { texts: string[]; progress: ComposeOptions["progress"] } {
    const texts: string[] = [];
    return {
      texts,
      progress: { load: () => texts.at(-1) ?? null, save: async (text) => void texts.push(text) },
    };
  }

  for (const checksum of [undefined, "CRC32", "CRC32C", "CRC64NVME", "SHA1"] as const)
    test(`goes on from any point that was saved, with ${checksum ?? "no checksum"}`, async () => {
      const store = new MemoryStore();
      const slices = await odd(store);
      const { texts, progress } = savedTexts();
      const options = { saveEvery, ...(checksum && { checksum }) };
      const expected = await compose(store, slices, { ...options, ...(progress && { progress }) });
      expect(expected.content.digest).toBe(await referenceDigest(bytes));
      expect(texts.length).toBe(checksum === "SHA1" ? 0 : 20 - (checksum ? 0 : 3));
      for (const text of texts) {
        expect(text.length).toBeLessThan(4000);
        store.gets = [];
        const again = await compose(store, slices, {
          ...options,
          progress: { load: () => text, save: async () => {} },
        });
        expect(again).toEqual(expected);
        expect(store.chunkBytesRead).toBeLessThanOrEqual(bytes.length - JSON.parse(text).done);
      }
    });

  test("comes to its end however often the store fails in between, and hashes nothing twice", async () => {
    const store = new MemoryStore();
    const slices = await odd(store);
    const { texts, progress } = savedTexts();
    const attempt = async () => {
      store.gets = [];
      return await compose(store, slices, { saveEvery, ...(progress && { progress }) });
    };
    store.getsUntilFailure = 2;
    let failures = 0;
    for (;;) {
      const composed = await attempt().catch(() => undefined);
      if (composed) {
        expect(composed.content.digest).toBe(await referenceDigest(bytes));
        break;
      }
      failures++;
      expect(failures).toBeLessThan(20);
    }
    expect(failures).toBeGreaterThan(2);
    expect(new Set(texts).size).toBe(texts.length);
  });

  test("does not go on from what is none, from other slices, or from another checksum", REST, async () => {
    const store = new MemoryStore();
    const slices = await odd(store);
    const other = await parts(store, randomBytes(bytes.length, 9), always(3 * MIB + 7));
    const texts: string[] = [];
    const save = async (text: string) => void texts.push(text);
    await compose(store, other, { saveEvery, progress: { load: () => null, save } });
    await compose(store, slices, { saveEvery, checksum: "CRC32", progress: { load: () => null, save } });
    for (const text of ["", "{}", "nonsense", ...texts]) {
      const { content } = await compose(store, slices, { progress: { load: () => text, save } });
      expect(content.digest).toBe(await referenceDigest(bytes));
    }
  });

  test("saves nothing where nothing has to be read", async () => {
    const store = new MemoryStore();
    const { texts, progress } = savedTexts();
    await compose(store, await parts(store, bytes, always(5 * MIB)), {
      saveEvery: 1,
      ...(progress && { progress }),
    });
    expect(texts).toEqual([]);
  });
});
