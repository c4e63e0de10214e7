import { waitUntil } from "cloudflare:workers";
import { createHash, type Hash } from "node:crypto";
import { LEAF_BYTES, toHex } from "../../../protocol/digest.ts";
import type { ChecksumAlgorithm } from "../../core/checksums.ts";
import { type BlobOwner, chunkBlobName, newWrite } from "../blob-name.ts";
import { type ByteBudget, isolateBudget } from "../budget.ts";
import type { Body, Chunk, Content } from "../content.ts";
import { cutChunk, encodeLeaves } from "../hash/leaves.ts";
import { sha256 } from "../hash/tree-stack.ts";
import { ChunkList, chunksWithin } from "../manifest.ts";
import type { BlobStore, ByteRange } from "../port.ts";
import { rehash, type SavedProgress, type Unhashed } from "./rehash.ts";

/** A content that is there, or a range of it. */
export interface Slice {
  readonly body: Body;
  /** Bytes of the whole content. */
  readonly size: number;
  /** Inside the content. Absent: all of it. */
  readonly range?: ByteRange;
}

export interface ComposeOptions {
  readonly store: BlobStore;
  /** The owner of the blobs that this makes: manifests, and what was inline. */
  readonly owner: { readonly uid: string; readonly upload: string };
  /** A checksum over the whole. Every byte is then read. */
  readonly checksum?: ChecksumAlgorithm;
  /** Bytes of JSON from which the list of chunks goes to a manifest. */
  readonly manifestBound?: number;
  /** A long composition saves here how far it came, in a few KiB of text. One of the same slices then goes on from there. */
  readonly progress?: SavedProgress;
  /** How many bytes may be read between two saves. */
  readonly saveEvery?: number;
  /** What the buffer that bytes are read into is counted against. */
  readonly budget?: ByteBudget;
}

export interface Composed {
  /** Its chunks refer to blobs of the slices' contents, but for those that it `made`. The caller must name these contents as `keeps`. */
  readonly content: Content;
  /** Base64; null if none was wanted. */
  readonly checksum: string | null;
}

/** About a second of hashing. */
const SAVE_EVERY_BYTES = 1024 * 1024 * 1024;

/**
 * Puts a content together from runs of others without copying them: its chunks refer to their blobs, and only inline
 * bytes go to a new one. Its digest is made from their leaf hashes, as far as these are leaves of the new content, too.
 * Bytes that lie across leaves are read and hashed. Rejects if the store or a callback does.
 */
export async function composeContent(
  slices: AsyncIterable<Slice>,
  options: ComposeOptions,
): Promise<Composed> {
  const { store, checksum, progress, saveEvery = SAVE_EVERY_BYTES, budget = isolateBudget } = options;
  const joined = await join(slices, options);
  const done = rehash(joined, { store, checksum, progress, saveEvery, budget });
  // The platform may drop a request whose sender is gone; this one must first give back what it took of the budget.
  waitUntil(done.catch(() => {}));
  const { digest, checksum: value } = await done;
  const { size, body, made } = joined;
  return { content: { digest, size, body, ...(made.length > 0 && { made }) }, checksum: value };
}

async function join(
  slices: AsyncIterable<Slice>,
  { store, owner: { uid, upload }, manifestBound, progress }: ComposeOptions,
): Promise<Unhashed & { readonly made: readonly string[] }> {
  const owner = { uid, upload, write: newWrite() };
  const list = new ChunkList({ store, owner, ...(manifestBound !== undefined && { bound: manifestBound }) });
  const seal = createHash("sha256");
  const made: string[] = [];
  let size = 0;
  for await (const slice of slices) {
    if (progress) sealSlice(seal, slice);
    for await (const chunk of chunksOf(slice, { store, owner })) {
      // The bytes of a row are in no blob of the slice's content.
      if (slice.body.kind === "inline") made.push(chunk.blob);
      await list.add(size % LEAF_BYTES === 0 ? chunk : { ...chunk, leaves: null });
      size += chunk.length;
    }
  }
  return { body: await list.finish(), size, seal: seal.digest("hex"), made: [...new Set(made)] };
}

async function* chunksOf(
  { body, size, range = { offset: 0, length: size } }: Slice,
  { store, owner }: { store: BlobStore; owner: BlobOwner },
): AsyncGenerator<Chunk> {
  if (body.kind === "inline") {
    const bytes = body.bytes.subarray(range.offset, range.offset + range.length);
    if (bytes.length === 0) return;
    // At most INLINE_LIMIT_BYTES, which are one leaf.
    const leaf = sha256(bytes);
    const blob = chunkBlobName({ digest: toHex(leaf), size: bytes.length }, owner);
    await store.put(blob, bytes);
    yield { blob, offset: 0, length: bytes.length, leaves: encodeLeaves([leaf]) };
    return;
  }
  for await (const { chunk, from, to } of chunksWithin(store, { body, range }))
    yield cutChunk(chunk, { from, to });
}

/** Blobs never change: their names stand for their bytes. */
function sealSlice(seal: Hash, { body, size, range }: Slice): void {
  const identity = body.kind === "inline" ? toHex(sha256(body.bytes)) : body;
  seal.update(new TextEncoder().encode(JSON.stringify([identity, size, range])));
}
