import fc from "fast-check";
import type { Chunk, ChunkedBody } from "../../../worker/blobs/content.ts";
import { ChunkList, chunksFrom, chunksWithin, deleteManifest } from "../../../worker/blobs/manifest.ts";
import type { BlobStore, ByteRange } from "../../../worker/blobs/port.ts";
import type { Tally } from "../tally.ts";

const OWNER = { uid: "u", upload: "master.r.01BX5ZZKBKACTAV9WEVGEMMVRZ", write: "w" };

/** Chunks of a content, the bytes from which their list goes to pages, a range by chunks and a byte, and what befalls a page. */
export const chunked = fc.record({
  lengths: fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1, maxLength: 60 }),
  bound: fc.integer({ min: 200, max: 3000 }),
  from: fc.tuple(fc.nat(60), fc.integer({ min: -1, max: 1 })),
  to: fc.tuple(fc.nat(60), fc.integer({ min: -1, max: 1 })),
  harm: fc.constantFrom("none", "none", "lost", "cut"),
});
type Chunked = typeof chunked extends fc.Arbitrary<infer T> ? T : never;

/** A list comes back as it was, ranges of it are those of the content, and a page that is harmed ends the reading with an error. */
export async function holdsChunked({ lengths, bound, from, to, harm }: Chunked, tally: Tally): Promise<void> {
  const store = new Blobs();
  const chunks = lengths.map(
    (length, index): Chunk => ({ blob: `b/${index}`, offset: 0, length, leaves: null }),
  );
  const list = new ChunkList({ store, owner: OWNER, bound });
  for (const chunk of chunks) await list.add(chunk);
  const body = await list.finish();
  tally.add(`manifest, ${harm}`, body.kind === "chunks" ? "in a row" : "good");
  const harmed = harm === "none" ? false : store.harm(harm);
  const [offset = 0, end = 0] = [placeBy(lengths, from), placeBy(lengths, to)].sort((a, b) => a - b);
  try {
    await mustRead(store, { body, lengths, range: { offset, length: end - offset } });
    if (harmed) throw new Wrong("it was harmed, and is read");
  } catch (error) {
    if (error instanceof Wrong || !harmed) throw error;
    return;
  }
  if (body.kind !== "manifest") return;
  let isDone = false;
  for (let turn = 0; !isDone && turn < 100; turn++) {
    isDone = (
      await deleteManifest(store, { blob: body.blob, length: body.length, chunks: "own", mostPages: 2 })
    ).done;
  }
  if (!isDone || store.count > 0) throw new Error(`${store.count} pages are left of what was deleted`);
}

/** A place in a content: where one of its chunks begins or ends, or a byte beside it. */
function placeBy(lengths: readonly number[], [count, beside]: readonly [number, number]): number {
  const sumOf = (some: readonly number[]): number => some.reduce((sum, length) => sum + length, 0);
  return Math.max(0, Math.min(sumOf(lengths), sumOf(lengths.slice(0, count)) + beside));
}

class Wrong extends Error {}

async function mustRead(
  store: BlobStore,
  { body, lengths, range }: { body: ChunkedBody; lengths: readonly number[]; range: ByteRange },
): Promise<void> {
  const read: string[] = [];
  for await (const { chunk, start } of chunksFrom(store, { body, from: 0 }))
    read.push(`${chunk.blob} ${start}`);
  const expected: string[] = [];
  let at = 0;
  for (const [index, length] of lengths.entries()) {
    expected.push(`b/${index} ${at}`);
    at += length;
  }
  if (read.join() !== expected.join()) throw new Wrong(`read as ${read}, and not ${expected}`);
  let bytes = 0;
  for await (const part of chunksWithin(store, { body, range })) bytes += part.to - part.from;
  if (bytes !== range.length) throw new Wrong(`a range of ${range.length} bytes has ${bytes}`);
}

/** As much of a store as lists of chunks need. */
class Blobs implements BlobStore {
  readonly #blobs = new Map<string, Uint8Array>();

  get count(): number {
    return this.#blobs.size;
  }

  /** Whether there is something to harm. */
  harm(how: "lost" | "cut"): boolean {
    const [[name, bytes] = []] = this.#blobs;
    if (name === undefined || bytes === undefined) return false;
    if (how === "lost") this.#blobs.delete(name);
    else this.#blobs.set(name, bytes.subarray(0, bytes.length - 1));
    return true;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    this.#blobs.set(name, bytes.slice());
  }

  async get(name: string, { offset, length }: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    const bytes = this.#blobs.get(name)?.slice(offset, offset + length);
    return bytes === undefined ? null : new Response(bytes).body;
  }

  async delete(names: readonly string[]): Promise<void> {
    for (const name of names) this.#blobs.delete(name);
  }

  async list(): Promise<never> {
    throw new Error("nobody lists these");
  }
}
