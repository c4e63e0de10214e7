import { type S3Error, s3Error } from "../answer/errors.ts";
import type { QueryPair, Target } from "../request/target.ts";
import {
  ALGORITHM,
  type Authorization,
  parseBasicTime,
  parseCredential,
  type RequestTime,
  SIGNATURE,
} from "./parse-authorization.ts";

/** What the query of a presigned URL says of its signature. */
export interface Presigned extends Authorization {
  readonly time: RequestTime;
  /** How long after `time` it holds, in seconds. */
  readonly expires: number;
}

/** Longest life of a presigned URL, in seconds: a week. */
const MAX_EXPIRES = 7 * 24 * 60 * 60;
const REQUIRED = [
  "X-Amz-Algorithm",
  "X-Amz-Credential",
  "X-Amz-Date",
  "X-Amz-Expires",
  "X-Amz-SignedHeaders",
  "X-Amz-Signature",
] as const;
/** A query with one of these is meant as a signature, even if the others are missing. */
const MARKS: ReadonlySet<string> = new Set(["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"]);
/** In lower case. They say who signed, and mean nothing to the operation. */
const SIGNING_PARAMETERS: ReadonlySet<string> = new Set([
  ...REQUIRED.map((name) => name.toLowerCase()),
  "x-amz-security-token",
]);

/**
 * Checksums of no bytes. SDKs that compute one by themselves put it into URLs that they presign without knowing the
 * body. S3 then lets every body pass (github.com/aws/aws-sdk-go-v2/issues/2610).
 */
const EMPTY_CHECKSUMS: ReadonlyMap<string, string> = new Map([
  ["x-amz-checksum-crc32", "AAAAAA=="],
  ["x-amz-checksum-crc32c", "AAAAAA=="],
  ["x-amz-checksum-crc64nvme", "AAAAAAAAAAA="],
  ["x-amz-checksum-sha1", "2jmj7l5rSw0yVb/vlWAYkK/YBwk="],
  ["x-amz-checksum-sha256", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="],
  [
    "x-amz-checksum-sha512",
    "z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
  ],
  ["x-amz-checksum-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="],
  ["x-amz-checksum-xxhash64", "70bbN1HY6Zk="],
  ["x-amz-checksum-xxhash3", "LQaABTjTlMI="],
  ["x-amz-checksum-xxhash128", "maoG0wFHmNhgAcMkRo1Jfw=="],
]);

/** Whether the query carries a signature of version 4, whole or in part. */
export function isPresigned({ query }: Target): boolean {
  return query.some(([name]) => MARKS.has(name));
}

/** Reads the query of a presigned URL ("Authenticating Requests: Using Query Parameters"). Throws AuthorizationQueryParametersError. */
export function parsePresigned({ query }: Target): Presigned {
  const values = new Map(query.toReversed());
  const missing = REQUIRED.filter((name) => !values.get(name));
  if (missing.length > 0) {
    throw faulty(`a presigned URL needs ${REQUIRED.join(", ")}, and it has no ${missing.join(", no ")}`);
  }
  const value = (name: (typeof REQUIRED)[number]): string => values.get(name) ?? "";
  const algorithm = value("X-Amz-Algorithm");
  if (algorithm !== ALGORITHM) throw faulty(`X-Amz-Algorithm is '${algorithm}', it must be ${ALGORITHM}`);
  const credential = parseCredential(value("X-Amz-Credential"));
  if (typeof credential === "string") throw faulty(`X-Amz-Credential is malformed: ${credential}`);
  const time = parseBasicTime(value("X-Amz-Date"));
  if (time === undefined) {
    throw faulty(`X-Amz-Date is '${value("X-Amz-Date")}', it must be YYYYMMDDTHHMMSSZ`);
  }
  if (!time.basic.startsWith(credential.date)) {
    throw faulty(
      `the date ${credential.date} in X-Amz-Credential is not the day of X-Amz-Date ${time.basic}`,
    );
  }
  const expires = parseExpires(value("X-Amz-Expires"));
  const signature = value("X-Amz-Signature");
  if (!SIGNATURE.test(signature)) throw faulty("X-Amz-Signature must be 64 lower-case hex digits");
  const signedHeaders = value("X-Amz-SignedHeaders").toLowerCase().split(";");
  return { ...credential, signedHeaders, signature, time, expires };
}

/** Seconds. */
function parseExpires(text: string): number {
  const seconds = /^-?[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (seconds >= 1 && seconds <= MAX_EXPIRES) return seconds;
  throw faulty(`X-Amz-Expires is '${text}', it must be a number of seconds from 1 to ${MAX_EXPIRES}`);
}

/** The target that was signed: all but the signature itself. */
export function withoutSignature(target: Target): Target {
  return {
    ...target,
    query: target.query.filter(([name]) => name !== "X-Amz-Signature"),
    rawQuery: target.rawQuery
      .split("&")
      .filter((part) => !part.startsWith("X-Amz-Signature="))
      .join("&"),
  };
}

/**
 * The query as an operation sees it. If a parameter comes twice, the first counts. The `x-amz-*` of a presigned URL are
 * left out: they are its signature, or stand for headers.
 */
export function operationQuery(target: Target): ReadonlyMap<string, string> {
  const pairs = isPresigned(target) ? target.query.filter((pair) => !isAmz(pair)) : target.query;
  return new Map(pairs.toReversed());
}

/**
 * The headers as an operation sees them. Signers move `x-amz-*` headers into the query of a presigned URL, and there they
 * mean the same, except for a checksum of no bytes. A header that was really sent wins over one in the query.
 */
export function operationHeaders(
  headers: ReadonlyMap<string, string>,
  target: Target,
): ReadonlyMap<string, string> {
  if (!isPresigned(target)) return headers;
  const moved = new Map<string, string>();
  for (const pair of target.query.toReversed()) {
    const name = pair[0].toLowerCase();
    const counts = !SIGNING_PARAMETERS.has(name) && EMPTY_CHECKSUMS.get(name) !== pair[1];
    if (isAmz(pair) && counts) moved.set(name, pair[1]);
  }
  return moved.size === 0 ? headers : new Map([...moved, ...headers]);
}

function isAmz([name]: QueryPair): boolean {
  return name.toLowerCase().startsWith("x-amz-");
}

function faulty(what: string): S3Error {
  return s3Error.AuthorizationQueryParametersError(`The URL's signature is malformed: ${what}.`);
}
