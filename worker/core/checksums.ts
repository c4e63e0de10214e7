import { CHECKSUM_ALGORITHMS } from "../../protocol/archives.ts";
import { decodeBase64, encodeBase64 } from "./base64.ts";
import { type Crc, combineCrcs } from "./crc-combine.ts";

export { CHECKSUM_ALGORITHMS };
export type ChecksumAlgorithm = (typeof CHECKSUM_ALGORITHMS)[number];

/** Over all bytes of the object, or over the checksums of its parts. */
export type ChecksumType = "FULL_OBJECT" | "COMPOSITE";

/** An object's checksum as it is kept and answered. */
export interface Checksum {
  readonly algorithm: ChecksumAlgorithm;
  readonly type: ChecksumType;
  /** Base64; of a composite with `-<number of parts>` behind it. */
  readonly value: string;
}

/** Algorithms whose value for a whole follows from the values of its parts. */
export type CrcAlgorithm = "CRC32" | "CRC32C" | "CRC64NVME";

/** Polynomials in the usual notation, the highest power left out, the lowest bit first. */
export const CRCS: Readonly<Record<CrcAlgorithm, Crc>> = {
  CRC32: { polynomial: "edb88320" },
  CRC32C: { polynomial: "82f63b78" },
  CRC64NVME: { polynomial: "9a6c9329ac4bc9b5" },
};

const CHECKSUM_BYTES: Readonly<Record<ChecksumAlgorithm, number>> = {
  CRC32: 4,
  CRC32C: 4,
  CRC64NVME: 8,
  SHA1: 20,
  SHA256: 32,
  SHA512: 64,
  MD5: 16,
  XXHASH64: 8,
  XXHASH3: 8,
  XXHASH128: 16,
};

/** What a multipart upload's checksum can be over, the default first (S3 User Guide, "Checksums for multipart uploads"). */
const MULTIPART_TYPES: Readonly<Record<ChecksumAlgorithm, readonly [ChecksumType, ...ChecksumType[]]>> = {
  CRC32: ["COMPOSITE", "FULL_OBJECT"],
  CRC32C: ["COMPOSITE", "FULL_OBJECT"],
  CRC64NVME: ["FULL_OBJECT"],
  SHA1: ["COMPOSITE"],
  SHA256: ["COMPOSITE"],
  SHA512: ["COMPOSITE"],
  MD5: ["COMPOSITE"],
  XXHASH64: ["COMPOSITE"],
  XXHASH3: ["COMPOSITE"],
  XXHASH128: ["COMPOSITE"],
};

/** What the checksum of a multipart upload with this algorithm may be over. */
export function checksumTypes(algorithm: ChecksumAlgorithm): readonly ChecksumType[] {
  return MULTIPART_TYPES[algorithm];
}

/** What it is over if the client does not say. */
export function defaultChecksumType(algorithm: ChecksumAlgorithm): ChecksumType {
  return MULTIPART_TYPES[algorithm][0];
}

export function isCrc(algorithm: ChecksumAlgorithm): algorithm is CrcAlgorithm {
  return algorithm in CRCS;
}

/** The bytes of a checksum that a header has in base64; null if it cannot be one of this algorithm. */
export function parseChecksum(algorithm: ChecksumAlgorithm, base64: string): Uint8Array<ArrayBuffer> | null {
  const bytes = decodeBase64(base64);
  return bytes?.length === CHECKSUM_BYTES[algorithm] ? bytes : null;
}

/** A part's checksum and size. */
export interface SummedPart {
  /** Base64. */
  readonly value: string;
  /** Bytes. */
  readonly size: number;
}

/** The checksum over all bytes of an object, in base64, from those of its parts, in order. Throws if a value is malformed. */
export function combineChecksums({
  algorithm,
  parts,
}: {
  readonly algorithm: CrcAlgorithm;
  readonly parts: readonly SummedPart[];
}): string {
  const runs = parts.map(({ value, size }) => ({ crc: checksumBytes(algorithm, value), size }));
  return encodeBase64(combineCrcs(CRCS[algorithm], runs));
}

/**
 * The composite checksum of an object: over the checksums (base64) of its parts, with their number behind it.
 * `hash` is the same algorithm. Throws if a value is malformed.
 */
export function compositeOf({
  algorithm,
  values,
  hash,
}: {
  readonly algorithm: ChecksumAlgorithm;
  readonly values: readonly string[];
  readonly hash: (bytes: Uint8Array) => Uint8Array;
}): string {
  const joined = new Uint8Array(values.length * CHECKSUM_BYTES[algorithm]);
  for (const [index, value] of values.entries())
    joined.set(checksumBytes(algorithm, value), index * CHECKSUM_BYTES[algorithm]);
  return `${encodeBase64(hash(joined))}-${values.length}`;
}

function checksumBytes(algorithm: ChecksumAlgorithm, value: string): Uint8Array {
  const bytes = parseChecksum(algorithm, value);
  if (bytes === null) throw new TypeError(`'${value}' is no ${algorithm} in base64`);
  return bytes;
}
