import { createChecksum } from "../../blobs/hash/checksum-hasher.ts";
import type { MultipartStatus, Part } from "../../branch/contract/multipart.ts";
import {
  CHECKSUM_ALGORITHMS,
  type Checksum,
  type ChecksumAlgorithm,
  type ChecksumType,
  combineChecksums,
  compositeOf,
  isCrc,
  parseChecksum,
} from "../../core/checksums.ts";
import { invalidRequest, S3Error } from "../answer/errors.ts";
import { checksumHeader } from "../answer/fields.ts";
import { askedType } from "../request/checksum-kind.ts";

type Headers = ReadonlyMap<string, string>;

/** The whole object's checksum, as a completion claims it. */
export interface ClaimedChecksum {
  readonly algorithm: ChecksumAlgorithm;
  readonly value: string;
}

/**
 * The checksum in the headers of CompleteMultipartUpload, which is the object's and not the body's; undefined if there
 * is none. Throws InvalidRequest if it is malformed, or of another kind than the upload was begun for.
 */
export function claimedChecksum(
  headers: Headers,
  { checksum: begun }: Pick<MultipartStatus, "checksum">,
): ClaimedChecksum | undefined {
  checkType(askedType(headers), begun);
  const claimed = CHECKSUM_ALGORITHMS.flatMap((algorithm) => {
    const value = headers.get(checksumHeader(algorithm))?.trim();
    return value === undefined ? [] : [{ algorithm, value }];
  });
  const [claim] = claimed;
  if (claim === undefined) return undefined;
  const { algorithm, value } = claim;
  if (claimed.length > 1) throw invalidRequest("There is more than one x-amz-checksum-* header: send one.");
  if (begun && begun.algorithm !== algorithm) {
    throw invalidRequest(
      `The upload was begun for ${begun.algorithm}, and the object's checksum is in ${checksumHeader(algorithm)}: send ${checksumHeader(begun.algorithm)}, or none.`,
    );
  }
  if (parseChecksum(algorithm, value.replace(/-[0-9]+$/, "")) === null) {
    throw invalidRequest(
      `${checksumHeader(algorithm)} is '${value}': it must be the base64 of a ${algorithm}.`,
    );
  }
  return claim;
}

function checkType(type: ChecksumType | undefined, begun: MultipartStatus["checksum"]): void {
  // If the upload was begun without an algorithm, a completion can claim only a checksum over the whole object.
  const expected = begun?.type ?? "FULL_OBJECT";
  if (type === undefined || type === expected) return;
  throw invalidRequest(
    `x-amz-checksum-type is ${type}, but the upload's is ${expected}: send that, or leave it out.`,
  );
}

/** The headers without the checksums of the object, so that none is taken for the body's. */
export function bodyHeaders(headers: Headers): Headers {
  const left = new Map(headers);
  for (const algorithm of CHECKSUM_ALGORITHMS) left.delete(checksumHeader(algorithm));
  return left;
}

/** The object's checksum, made from those of its parts: no byte is read again. Returns undefined if the upload has none. */
export function checksumOfParts(
  { checksum }: Pick<MultipartStatus, "checksum">,
  parts: readonly Part[],
): Checksum | undefined {
  if (checksum === null) return undefined;
  const { algorithm, type } = checksum;
  const sums = parts.map(({ number, checksum: value, size }) => {
    if (value !== null) return { value, size };
    throw new S3Error("InvalidPart", { message: `Part ${number} has no ${algorithm}: upload it again.` });
  });
  const value =
    type === "FULL_OBJECT" && isCrc(algorithm)
      ? combineChecksums({ algorithm, parts: sums })
      : compositeOf({ algorithm, values: sums.map((sum) => sum.value), hash: hashWith(algorithm) });
  return { algorithm, type, value };
}

/** Throws BadDigest if the object's checksum is not the claimed one. A claim of a composite may leave the number of parts out. */
export function checkClaim(claim: ClaimedChecksum | undefined, found: Checksum | undefined): void {
  if (claim === undefined || found === undefined) return;
  const { value } = found;
  if (claim.value === value || (found.type === "COMPOSITE" && value.startsWith(`${claim.value}-`))) return;
  throw new S3Error("BadDigest", {
    message: `The object's ${found.algorithm} is '${value}', not '${claim.value}' as ${checksumHeader(found.algorithm)} says: list the parts, and upload again what is wrong.`,
  });
}

function hashWith(algorithm: ChecksumAlgorithm): (bytes: Uint8Array) => Uint8Array {
  return (bytes) => {
    const hasher = createChecksum(algorithm);
    hasher.update(bytes);
    return hasher.digest();
  };
}
