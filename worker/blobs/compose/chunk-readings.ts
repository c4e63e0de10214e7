import { LEAF_BYTES } from "../../../protocol/digest.ts";
import { type ByteSource, byteSource } from "../body-reader.ts";
import type { Chunk, ChunkedBody } from "../content.ts";
import { decodeLeaves } from "../hash/leaves.ts";
import { chunksFrom, MissingBlobError } from "../manifest.ts";
import type { BlobStore } from "../port.ts";

/** What is left to hash of a chunk. */
export interface ChunkReading {
  readonly chunk: Chunk;
  /** Where in the chunk that begins. */
  readonly from: number;
  /** Hashes of the chunk's first leaves, also of those before `from`. */
  readonly leaves: readonly Uint8Array[];
  /** From here to the chunk's end its bytes have to be read. */
  readonly readFrom: number;
  /** Those bytes; null where there are none. */
  readonly source: ByteSource | null;
}

export interface ReadingsOptions {
  readonly body: ChunkedBody;
  /** Bytes of the whole content. */
  readonly size: number;
  /** So many are hashed already. */
  readonly done: number;
  /** Whether leaves that are known make reading unnecessary, or every byte is wanted. */
  readonly need: "unknown-leaves" | "all-bytes";
}

/** The chunks of a content that are not hashed yet, each with its blob opened where bytes have to be read. */
export async function* chunkReadings(
  store: BlobStore,
  { body, size, done, need }: ReadingsOptions,
): AsyncGenerator<ChunkReading> {
  for await (const { start, chunk } of chunksFrom(store, { body, from: done })) {
    const from = Math.max(0, done - start);
    if (from >= chunk.length) continue;
    const leaves = usableLeaves(chunk, start + chunk.length === size);
    const readFrom = need === "all-bytes" ? from : Math.max(from, leaves.length * LEAF_BYTES);
    const source = readFrom < chunk.length ? await openChunk(store, { chunk, readFrom }) : null;
    yield { chunk, from, leaves, readFrom, source };
  }
}

/** The last hash is a leaf of the content only if the chunk ends with a leaf: a whole one, or the content's last. */
function usableLeaves({ leaves, length }: Chunk, endsContent: boolean): Uint8Array[] {
  if (leaves === null) return [];
  const whole = Math.floor(length / LEAF_BYTES);
  return decodeLeaves(leaves).slice(0, endsContent ? undefined : whole);
}

async function openChunk(
  store: BlobStore,
  { chunk, readFrom }: { chunk: Chunk; readFrom: number },
): Promise<ByteSource> {
  const range = { offset: chunk.offset + readFrom, length: chunk.length - readFrom };
  const stream = await store.get(chunk.blob, range);
  if (stream === null) throw new MissingBlobError(chunk.blob);
  return byteSource(stream);
}
