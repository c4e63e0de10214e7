import { createReadStream } from "node:fs";
import type { ContentId } from "../../protocol/content.ts";
import { LEAF_BYTES } from "../../protocol/digest.ts";
import { contentIdOf, TreeHash } from "../../runner/lib/tree-hash.ts";

/** The identity of bytes that are at hand. */
export function hashBytes(bytes: Uint8Array): ContentId {
  if (bytes.length <= LEAF_BYTES) return contentIdOf(bytes);
  const hash = new TreeHash();
  hash.update(bytes);
  return hash.finish();
}

/** The identity of a file's bytes. */
export async function hashFile(file: string, onBytes: (bytes: number) => void): Promise<ContentId> {
  const hash = new TreeHash();
  for await (const piece of createReadStream(file, { highWaterMark: LEAF_BYTES })) {
    const bytes = piece as Buffer;
    hash.update(bytes);
    onBytes(bytes.length);
  }
  return hash.finish();
}
