import { createHash } from "node:crypto";

const LEAF = 1024 * 1024;

/** The ETag that the contract promises for some bytes, worked out on its own here: `"<SHA-256 tree hash>-<size>"`. */
export function expectedEtag(bytes: Uint8Array): string {
  return `"${treeHash(bytes).toString("hex")}-${bytes.length}"`;
}

// Top down, where the product goes bottom up: the left half of n leaves is the largest power of two below n.
function treeHash(bytes: Uint8Array): Buffer {
  if (bytes.length <= LEAF) return sha256(bytes);
  let left = LEAF;
  while (left * 2 < bytes.length) left *= 2;
  return sha256(Buffer.concat([treeHash(bytes.subarray(0, left)), treeHash(bytes.subarray(left))]));
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}
