import { createReadStream } from "node:fs";
import type { ContentId } from "../../protocol/content.ts";
import { LEAF_BYTES } from "../../protocol/digest.ts";
import type { Range } from "../../runner/lib/in-parts.ts";
import { contentIdOf, hashPieces, TreeHash } from "../../runner/lib/tree-hash.ts";

/** The identity of bytes that are at hand. */
export function hashBytes(bytes: Uint8Array): ContentId {
  if (bytes.length <= LEAF_BYTES) return contentIdOf(bytes);
  const hash = new TreeHash();
  hash.update(bytes);
  return hash.finish();
}

/** The identity of a file's bytes, or of a run of them. */
export function hashFile(
  file: string,
  { onBytes, range }: { onBytes?: (bytes: number) => void; range?: Range } = {},
): Promise<ContentId> {
  const bounds = range && { start: range.offset, end: range.offset + range.length - 1 };
  return hashPieces(createReadStream(file, { ...bounds, highWaterMark: LEAF_BYTES }), onBytes);
}
