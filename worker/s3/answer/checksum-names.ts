import type { ChecksumAlgorithm } from "../../core/checksums.ts";

/** The header that carries a checksum of an algorithm. */
export function checksumHeader(algorithm: ChecksumAlgorithm): string {
  return `x-amz-checksum-${algorithm.toLowerCase()}`;
}

/** The tag that carries it in XML. */
export function checksumTag(algorithm: ChecksumAlgorithm): string {
  return `Checksum${algorithm}`;
}
