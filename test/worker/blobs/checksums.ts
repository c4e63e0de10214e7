import { createChecksum } from "../../../worker/blobs/hash/checksum-hasher.ts";
import type { ChecksumAlgorithm } from "../../../worker/core/checksums.ts";

/** A checksum of bytes at hand, in base64. */
export function checksumOf(algorithm: ChecksumAlgorithm, bytes: Uint8Array): string {
  const hasher = createChecksum(algorithm);
  hasher.update(bytes);
  return btoa(String.fromCharCode(...hasher.digest()));
}
