import type { ChunkSigning, Payload } from "../../app.ts";
import { NOT_SIGNED, type S3Error, s3Error } from "../answer/errors.ts";
import { ANNOTATION_PREFIX } from "../request/annotation.ts";
import type { Target } from "../request/target.ts";
import {
  type Authorization,
  MAX_SKEW_MS,
  parseAuthorization,
  type RequestTime,
  requestTime,
} from "./parse-authorization.ts";
import {
  isPresigned,
  operationHeaders,
  type Presigned,
  parsePresigned,
  withoutSignature,
} from "./presigned.ts";
import type { SignableRequest } from "./signature.ts";

/** What a request says of its signature, in header or query. It is checked as far as that goes without the secret. */
export interface Claim extends Authorization {
  readonly time: RequestTime;
  /** The value of x-amz-content-sha256, or what counts if it is absent. */
  readonly payloadHash: string;
  /** As it was signed. */
  readonly target: Target;
}

/** The header form signs these in any case. */
const COVERED_BY_HEADER: ReadonlySet<string> = new Set(["x-amz-content-sha256", "x-amz-date"]);
const COVERED_BY_QUERY: ReadonlySet<string> = new Set();
/** The query parameter that marks a signature of version 2. */
const VERSION_2 = "AWSAccessKeyId";

/** Reads and checks the claim. `now` is in milliseconds since 1970. Throws S3's codes for what is wrong with it. */
export function readClaim(request: SignableRequest, now: number): Claim {
  const header = request.headers.get("authorization");
  const presigned = isPresigned(request.target);
  if (header !== undefined && presigned) {
    throw s3Error.InvalidArgument(
      "Only one authentication mechanism is allowed: the Authorization header or the X-Amz-* query parameters.",
    );
  }
  if (header !== undefined) return claimOfHeader(request, { header, now });
  if (presigned) return claimOfQuery(request, now);
  if (!hasVersion2(request.target)) throw s3Error.AccessDenied(NOT_SIGNED);
  throw s3Error.InvalidRequest(
    'Signature version 2 is not supported: sign with AWS4-HMAC-SHA256 (signature version 4). boto3 presigns URLs by version 2 unless its client is made with config=Config(signature_version="s3v4").',
  );
}

/** Whether a request carries no signature at all, of whatever version, not even a part of one. */
export function isUnsigned({ headers, target }: Pick<SignableRequest, "headers" | "target">): boolean {
  return !headers.has("authorization") && !isPresigned(target) && !hasVersion2(target);
}

function hasVersion2({ query }: Target): boolean {
  return query.some(([name]) => name === VERSION_2);
}

function claimOfHeader(
  { headers, target }: SignableRequest,
  { header, now }: { header: string; now: number },
): Claim {
  const authorization = parseAuthorization(header);
  const time = requestTime(headers);
  if (time === undefined) {
    throw s3Error.AccessDenied(
      "The request has no valid time: send x-amz-date as YYYYMMDDTHHMMSSZ, or Date.",
    );
  }
  const payloadHash = headers.get("x-amz-content-sha256")?.trim();
  if (payloadHash === undefined) {
    throw s3Error.InvalidRequest(
      `The header x-amz-content-sha256 is missing: send the body's SHA-256 in hex, or ${UNSIGNED}.`,
    );
  }
  checkSkew(authorization, { time, now });
  checkPayload(payloadHash);
  checkSigned(headers, { ...authorization, covered: COVERED_BY_HEADER });
  return { ...authorization, time, payloadHash, target };
}

function claimOfQuery({ target, headers }: SignableRequest, now: number): Claim {
  const presigned = parsePresigned(target);
  const payloadHash = operationHeaders(headers, target).get("x-amz-content-sha256")?.trim() ?? UNSIGNED;
  checkValidity(presigned, now);
  checkPayload(payloadHash);
  checkSigned(headers, { ...presigned, covered: COVERED_BY_QUERY });
  if (target.query.some(([name]) => name.toLowerCase() === "x-amz-security-token")) throw unknownToken();
  return { ...presigned, payloadHash, target: withoutSignature(target) };
}

function checkSkew({ date }: Authorization, { time, now }: { time: RequestTime; now: number }): void {
  if (Math.abs(now - time.at) > MAX_SKEW_MS) {
    throw s3Error.RequestTimeTooSkewed(
      `The request's time ${time.basic} and the server's ${new Date(now).toISOString()} are more than 15 minutes apart: set the clock.`,
    );
  }
  if (!time.basic.startsWith(date)) {
    throw s3Error.AuthorizationHeaderMalformed(
      `The Authorization header is malformed: Credential's date ${date} is not the day of ${time.basic}.`,
    );
  }
}

/** The signer's clock may run ahead of ours. The URL itself says how long it holds. */
function checkValidity({ time, expires }: Presigned, now: number): void {
  const server = new Date(now).toISOString();
  if (now < time.at - MAX_SKEW_MS) {
    throw s3Error.AccessDenied(
      `Request is not yet valid: X-Amz-Date is ${time.basic}, and the server's time is ${server}.`,
    );
  }
  const until = time.at + expires * 1000;
  if (now <= until) return;
  const end = new Date(until).toISOString();
  throw s3Error.AccessDenied(
    `Request has expired: it was valid until ${end}, and the server's time is ${server}.`,
    { more: { "X-Amz-Expires": expires, Expires: end, ServerTime: server } },
  );
}

/** An unsigned header could have been added on the way: `host` and all that change an answer must be signed. */
function checkSigned(
  headers: ReadonlyMap<string, string>,
  { signedHeaders, covered }: { signedHeaders: readonly string[]; covered: ReadonlySet<string> },
): void {
  const open = signedHeaders.includes("host") ? [] : ["host"];
  for (const name of headers.keys()) {
    const counts = name.startsWith("x-amz-") || name.startsWith(ANNOTATION_PREFIX);
    if (counts && !covered.has(name) && !signedHeaders.includes(name)) open.push(name);
  }
  if (open.length > 0) {
    const list = open.join(", ");
    throw s3Error.AccessDenied(
      open.length === 1
        ? `The header ${list} is not signed: name it in SignedHeaders.`
        : `The headers ${list} are not signed: name them in SignedHeaders.`,
      { more: { HeadersNotSigned: list } },
    );
  }
  if (headers.has("x-amz-security-token")) throw unknownToken();
}

function unknownToken(): S3Error {
  return s3Error.InvalidToken("Session tokens are not known here: unset AWS_SESSION_TOKEN.");
}

const UNSIGNED = "UNSIGNED-PAYLOAD";
const SHA256_HEX = /^[0-9a-f]{64}$/;

interface Streaming {
  readonly chunks: "signed" | "unsigned";
  readonly trailer: "none" | "expected";
}

/** The values of x-amz-content-sha256 for a body in aws-chunked framing. */
const STREAMING: ReadonlyMap<string, Streaming> = new Map([
  ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", { chunks: "signed", trailer: "none" }],
  ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", { chunks: "signed", trailer: "expected" }],
  ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", { chunks: "unsigned", trailer: "expected" }],
]);

/** Throws for a value of x-amz-content-sha256 that says nothing of a body. */
function checkPayload(hash: string): void {
  if (SHA256_HEX.test(hash) || hash === UNSIGNED || STREAMING.has(hash)) return;
  const forms = [...STREAMING.keys()].join(", ");
  if (hash.startsWith("STREAMING-")) {
    throw s3Error.NotImplemented(
      `x-amz-content-sha256 is '${hash}': of the forms in chunks, ${forms} are implemented.`,
    );
  }
  const more = { ArgumentName: "x-amz-content-sha256", ArgumentValue: hash };
  throw s3Error.InvalidArgument(
    `x-amz-content-sha256 is '${hash}': it must be the body's SHA-256 in lower-case hex, ${UNSIGNED}, or one of ${forms}.`,
    { more },
  );
}

/** What a claim says of the body. */
export function payloadOf({ payloadHash }: Claim, signing: () => ChunkSigning): Payload {
  const streaming = STREAMING.get(payloadHash);
  if (streaming === undefined) {
    return { form: "plain", sha256: payloadHash === UNSIGNED ? null : payloadHash };
  }
  const { chunks, trailer } = streaming;
  return { form: "aws-chunked", signing: chunks === "signed" ? signing() : null, trailer };
}
