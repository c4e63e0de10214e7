import { CHECKSUM_ALGORITHMS } from "../../protocol/archives.ts";
import { decodeBase64, encodeBase64 } from "./base64.ts";

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

/** A cyclic redundancy check of 32 or 64 bits, reflected, that starts from all ones and ends by inverting them. */
interface Crc {
  /** Hex, 8 or 16 digits, the highest power left out, the lowest bit first ("reflected"). */
  readonly polynomial: string;
}

/** A run of bytes: its check and its size. */
interface CheckedRun {
  /** 4 or 8 bytes, big-endian. */
  readonly crc: Uint8Array;
  /** Bytes. */
  readonly size: number;
}

/**
 * A polynomial over GF(2) of degree below 64: the bits of two words, the constant term in the top bit of the first.
 * One of 32 bits stands in the second word, which is it times x^32; reduced by its modulus times x^32, it behaves
 * just like those of 64.
 */
type Polynomial = readonly [high: number, low: number];

const ONE: Polynomial = [0x8000_0000, 0];
/** Eight bits further: x^8. */
const ONE_BYTE: Polynomial = [0x0080_0000, 0];

/**
 * The check of runs of bytes laid end to end, from the checks of each: what stands before n more bytes is multiplied
 * by x^8n modulo the polynomial. The inversions at start and end cancel out.
 */
function combineCrcs({ polynomial }: Crc, runs: readonly CheckedRun[]): Uint8Array<ArrayBuffer> {
  const modulus = words(polynomial);
  const shifts = new Map<number, Polynomial>();
  let whole: Polynomial = [0, 0];
  for (const { crc, size } of runs) {
    const shift = shifts.get(size) ?? power(ONE_BYTE, { exponent: size, modulus });
    shifts.set(size, shift);
    const [high, low] = multiply(whole, { by: shift, modulus });
    const [runHigh, runLow] = fromBytes(crc);
    whole = [high ^ runHigh, low ^ runLow];
  }
  return toBytes(whole, polynomial.length / 2);
}

function power(
  base: Polynomial,
  { exponent, modulus }: { exponent: number; modulus: Polynomial },
): Polynomial {
  let result = ONE;
  let square = base;
  for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = multiply(result, { by: square, modulus });
    square = multiply(square, { by: square, modulus });
  }
  return result;
}

function multiply(
  [high, low]: Polynomial,
  { by, modulus }: { by: Polynomial; modulus: Polynomial },
): Polynomial {
  let [shiftedHigh, shiftedLow] = by;
  let productHigh = 0;
  let productLow = 0;
  for (let degree = 0; degree < 64; degree++) {
    const term = degree < 32 ? high >>> (31 - degree) : low >>> (63 - degree);
    if (term & 1) {
      productHigh ^= shiftedHigh;
      productLow ^= shiftedLow;
    }
    const overflow = shiftedLow & 1;
    shiftedLow = (shiftedLow >>> 1) | (shiftedHigh << 31);
    shiftedHigh >>>= 1;
    if (overflow) {
      shiftedHigh ^= modulus[0];
      shiftedLow ^= modulus[1];
    }
  }
  return [productHigh, productLow];
}

function words(hex: string): Polynomial {
  const digits = hex.padStart(16, "0");
  return [Number.parseInt(digits.slice(0, 8), 16), Number.parseInt(digits.slice(8), 16)];
}

function fromBytes(bytes: Uint8Array): Polynomial {
  const view = new DataView(new ArrayBuffer(8));
  for (const [index, byte] of bytes.entries()) view.setUint8(8 - bytes.length + index, byte);
  return [view.getUint32(0), view.getUint32(4)];
}

function toBytes([high, low]: Polynomial, length: number): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(8));
  view.setUint32(0, high);
  view.setUint32(4, low);
  return new Uint8Array(view.buffer.slice(8 - length));
}
