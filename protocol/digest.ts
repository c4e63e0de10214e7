/**
 * The identity of content: a SHA-256 tree hash with leaves of 1 MiB (the scheme that Amazon S3 Glacier publishes
 * as "Computing checksums"), together with the size. Up to 1 MiB it is the plain SHA-256. Pure: the caller brings
 * the SHA-256.
 */

/** Bytes in one leaf of the tree. */
export const LEAF_BYTES = 1024 * 1024;

/** Plain SHA-256 of some bytes: 32 bytes. */
export type Sha256 = (bytes: Uint8Array) => Uint8Array;

/**
 * The root over leaf hashes, in order: neighbours are hashed together, an odd one moves up unchanged, until one
 * is left. No leaf at all is empty content: the SHA-256 of nothing.
 */
export function treeRoot(leaves: readonly Uint8Array[], sha256: Sha256): Uint8Array {
  if (leaves.length === 0) return sha256(new Uint8Array(0));
  let level = leaves;
  while (level.length > 1) {
    const above: Uint8Array[] = [];
    for (let i = 0; i < level.length; i += 2) {
      const left = level[i] as Uint8Array;
      const right = level[i + 1];
      above.push(right ? sha256(joined(left, right)) : left);
    }
    level = above;
  }
  return level[0] as Uint8Array;
}

function joined(left: Uint8Array, right: Uint8Array): Uint8Array {
  const pair = new Uint8Array(left.length + right.length);
  pair.set(left);
  pair.set(right, left.length);
  return pair;
}

/** Lower-case hex. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
