import { LEAF_BYTES } from "../../../protocol/digest.ts";
import { encodeBase64 } from "../../core/base64.ts";
import type { Chunk } from "../content.ts";

const HASH_BYTES = 32;

/** Leaf hashes as a chunk keeps them. */
export function encodeLeaves(leaves: readonly Uint8Array[]): string {
  const joined = new Uint8Array(leaves.length * HASH_BYTES);
  for (const [index, leaf] of leaves.entries()) joined.set(leaf, index * HASH_BYTES);
  return encodeBase64(joined);
}

/** The leaf hashes that a chunk keeps. */
export function decodeLeaves(leaves: string): Uint8Array[] {
  // The platform's decoder is fast, and a large content has millions of leaves.
  const joined = atob(leaves);
  return Array.from({ length: joined.length / HASH_BYTES }, (_, index) => {
    const leaf = new Uint8Array(HASH_BYTES);
    for (let at = 0; at < HASH_BYTES; at++) leaf[at] = joined.charCodeAt(index * HASH_BYTES + at);
    return leaf;
  });
}

/** The bytes [from, to) of a chunk as a chunk of its own, with the leaf hashes that still hold. */
export function cutChunk(chunk: Chunk, { from, to }: { from: number; to: number }): Chunk {
  if (from === 0 && to === chunk.length) return chunk;
  const whole = to === chunk.length ? undefined : Math.floor(to / LEAF_BYTES);
  return {
    blob: chunk.blob,
    offset: chunk.offset + from,
    length: to - from,
    leaves:
      chunk.leaves !== null && from % LEAF_BYTES === 0
        ? encodeLeaves(decodeLeaves(chunk.leaves).slice(from / LEAF_BYTES, whole))
        : null,
  };
}
