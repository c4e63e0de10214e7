import { LEAF_BYTES } from "../../../protocol/digest.ts";
import { byteSource } from "../body-reader.ts";
import { type ByteBudget, isolateBudget } from "../budget.ts";
import type { ChunkedBody, Content } from "../content.ts";
import { type Milestone, ResumableHasher } from "../hash/resumable-hasher.ts";
import { chunksWithin, MissingBlobError } from "../manifest.ts";
import { type BlobStore, type ByteRange, ShortBlobError } from "../port.ts";

interface VerifyOptions {
  /** How far an earlier call came; null: nowhere. */
  readonly from: Milestone | null;
  /** How many bytes are read now at most; at least one leaf is. */
  readonly mostBytes: number;
  /** What the buffer that bytes are read into is counted against. */
  readonly budget?: ByteBudget;
}

export type Verified =
  | { readonly state: "good" }
  /** It is not read to its end: another call goes on from here. */
  | { readonly state: "more"; readonly milestone: Milestone }
  | { readonly state: "damaged"; readonly fault: string };

/** Proves by its digest that a content's bytes are its own. Holds one leaf. Rejects if the store can't be asked. */
export async function verifyContent(
  store: BlobStore,
  content: Pick<Content, "digest" | "size" | "body">,
  { from, mostBytes, budget = isolateBudget }: VerifyOptions,
): Promise<Verified> {
  const { digest, size, body } = content;
  const hasher = new ResumableHasher({ checksum: undefined, from });
  if (body.kind === "inline") {
    if (body.bytes.length > 0) hasher.addBytes(body.bytes);
    return judged(hasher, { digest, size });
  }
  const leaves = Math.max(1, Math.floor(mostBytes / LEAF_BYTES));
  const offset = hasher.done;
  const end = Math.min(size, offset + leaves * LEAF_BYTES);
  await budget.take(LEAF_BYTES);
  try {
    if (end > offset) await hashRange(store, { body, range: { offset, length: end - offset }, hasher });
    if (hasher.done < end) {
      return damaged(`its list of chunks ends after ${hasher.done} of ${size} bytes`);
    }
    return end < size ? { state: "more", milestone: hasher.milestone() } : judged(hasher, { digest, size });
  } catch (error) {
    if (error instanceof MissingBlobError || error instanceof ShortBlobError) return damaged(error.message);
    if (error instanceof SyntaxError) return damaged(`its manifest can't be read: ${error.message}`);
    throw error;
  } finally {
    budget.give(LEAF_BYTES);
  }
}

interface RangeToHash {
  readonly body: ChunkedBody;
  readonly range: ByteRange;
  readonly hasher: ResumableHasher;
}

async function hashRange(store: BlobStore, { body, range, hasher }: RangeToHash): Promise<void> {
  let buffer = new ArrayBuffer(LEAF_BYTES);
  for await (const { chunk, from, to } of chunksWithin(store, { body, range })) {
    const stream = await store.get(chunk.blob, { offset: chunk.offset + from, length: to - from });
    if (stream === null) throw new MissingBlobError(chunk.blob);
    const source = byteSource(stream);
    try {
      for (let at = from; at < to; ) {
        const length = Math.min(hasher.leafRest, to - at);
        const bytes = await source.read(new Uint8Array(buffer, 0, length), length);
        if (bytes.length !== length) throw new ShortBlobError(chunk.blob, chunk);
        hasher.addBytes(bytes);
        // Reading transferred the buffer.
        buffer = bytes.buffer;
        at += length;
      }
    } finally {
      await source.cancel().catch(() => {});
    }
  }
}

function judged(hasher: ResumableHasher, { digest, size }: Pick<Content, "digest" | "size">): Verified {
  const { done } = hasher;
  const found = hasher.finish().digest;
  if (found === digest && done === size) return { state: "good" };
  return damaged(`its bytes are ${found}-${done}`);
}

function damaged(fault: string): Verified {
  return { state: "damaged", fault };
}
