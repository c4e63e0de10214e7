import {
  CHECKSUM_ALGORITHMS,
  type ChecksumAlgorithm,
  type ChecksumType,
  checksumTypes,
  defaultChecksumType,
} from "../../core/checksums.ts";
import { s3Error } from "../answer/errors.ts";

type Headers = ReadonlyMap<string, string>;

/** Which checksum an object is to have. */
export interface ChecksumKind {
  readonly algorithm: ChecksumAlgorithm;
  readonly type: ChecksumType;
}

/** `x-amz-checksum-algorithm` and `x-amz-checksum-type`; undefined if neither is sent. Throws InvalidRequest. */
export function askedKind(headers: Headers): ChecksumKind | undefined {
  const algorithm = askedAlgorithm(headers);
  const type = askedType(headers);
  if (algorithm === undefined) {
    if (type === undefined) return undefined;
    throw s3Error.InvalidRequest("x-amz-checksum-type needs x-amz-checksum-algorithm beside it.");
  }
  const usual = defaultChecksumType(algorithm);
  if (type === undefined) return { algorithm, type: usual };
  if (checksumTypes(algorithm).includes(type)) return { algorithm, type };
  throw s3Error.InvalidRequest(
    `x-amz-checksum-type is '${type}', which ${algorithm} cannot be of an object in parts: ask for ${usual}.`,
  );
}

/** `x-amz-checksum-algorithm`; undefined if it is absent. Throws InvalidRequest. */
export function askedAlgorithm(headers: Headers): ChecksumAlgorithm | undefined {
  const text = headers.get("x-amz-checksum-algorithm");
  if (text === undefined) return undefined;
  const algorithm = CHECKSUM_ALGORITHMS.find((each) => each === text.toUpperCase());
  if (algorithm !== undefined) return algorithm;
  throw s3Error.InvalidRequest(
    `x-amz-checksum-algorithm is '${text}': it must be one of ${CHECKSUM_ALGORITHMS.join(", ")}.`,
  );
}

/** `x-amz-checksum-type`; undefined if it is absent. Throws InvalidRequest. */
export function askedType(headers: Headers): ChecksumType | undefined {
  const text = headers.get("x-amz-checksum-type");
  if (text === undefined) return undefined;
  const type = text.toUpperCase();
  if (type === "COMPOSITE" || type === "FULL_OBJECT") return type;
  throw s3Error.InvalidRequest(`x-amz-checksum-type is '${text}': it must be COMPOSITE or FULL_OBJECT.`);
}
