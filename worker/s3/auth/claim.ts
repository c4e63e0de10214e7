import { NOT_SIGNED } from "../answer/errors.ts";
import { NOTE_PREFIX } from "../request/note.ts";
import type { Target } from "../request/target.ts";
import type { SignableRequest } from "./canonical-request.ts";
import type { AuthFailure, Failed } from "./parse-authorization.ts";
import { type Authorization, parseAuthorization } from "./parse-authorization.ts";
import { payloadFault, UNSIGNED } from "./payload.ts";
import {
  hasSessionToken,
  isPresigned,
  operationHeaders,
  type Presigned,
  parsePresigned,
  withoutSignature,
} from "./presigned.ts";
import { MAX_SKEW_MS, type RequestTime, requestTime } from "./request-time.ts";

/** What a request says of its signature, in header or query. It is checked as far as that goes without the secret. */
export interface Claim extends Authorization {
  readonly time: RequestTime;
  /** The value of x-amz-content-sha256, or what counts if it is absent. */
  readonly payloadHash: string;
  /** As it was signed. */
  readonly target: Target;
}

type ReadClaim = { readonly ok: true; readonly claim: Claim } | Failed;

/** The header form signs these in any case. */
const COVERED_BY_HEADER: ReadonlySet<string> = new Set(["x-amz-content-sha256", "x-amz-date"]);
const COVERED_BY_QUERY: ReadonlySet<string> = new Set();
/** The query parameter that marks a signature of version 2. */
const VERSION_2 = "AWSAccessKeyId";

/** Reads and checks the claim. `now` is in milliseconds since 1970. */
export function readClaim(request: SignableRequest, now: number): ReadClaim {
  const header = request.headers.get("authorization");
  const presigned = isPresigned(request.target);
  if (header !== undefined && presigned) {
    return {
      ok: false,
      code: "InvalidArgument",
      message:
        "Only one authentication mechanism is allowed: the Authorization header or the X-Amz-* query parameters.",
    };
  }
  if (header !== undefined) return claimOfHeader(request, { header, now });
  return presigned ? claimOfQuery(request, now) : unsigned(request);
}

/** Whether a request carries no signature at all, of whatever version, not even a part of one. */
export function isUnsigned({ headers, target }: Pick<SignableRequest, "headers" | "target">): boolean {
  return !headers.has("authorization") && !isPresigned(target) && !hasVersion2(target);
}

function hasVersion2({ query }: Target): boolean {
  return query.some(([name]) => name === VERSION_2);
}

function claimOfHeader(
  request: SignableRequest,
  { header, now }: { header: string; now: number },
): ReadClaim {
  const parsed = parseAuthorization(header);
  if (!parsed.ok) return parsed;
  const { authorization } = parsed;
  const time = requestTime(request.headers);
  if (time === undefined) {
    return failed({
      code: "AccessDenied",
      message: "The request has no valid time: send x-amz-date as YYYYMMDDTHHMMSSZ, or Date.",
    });
  }
  const payloadHash = request.headers.get("x-amz-content-sha256")?.trim();
  if (payloadHash === undefined) {
    return failed({
      code: "InvalidRequest",
      message: `The header x-amz-content-sha256 is missing: send the body's SHA-256 in hex, or ${UNSIGNED}.`,
    });
  }
  const fault =
    skewFault(authorization, { time, now }) ??
    payloadFault(payloadHash) ??
    unsignedHeaderFault(request.headers, { ...authorization, covered: COVERED_BY_HEADER });
  if (fault) return failed(fault);
  const { keyId, date, region, signedHeaders, signature } = authorization;
  const { target } = request;
  return { ok: true, claim: { keyId, date, region, signedHeaders, signature, time, payloadHash, target } };
}

function claimOfQuery({ target, headers }: SignableRequest, now: number): ReadClaim {
  const parsed = parsePresigned(target);
  if (!parsed.ok) return parsed;
  const { presigned } = parsed;
  const payloadHash = operationHeaders(headers, target).get("x-amz-content-sha256")?.trim() ?? UNSIGNED;
  const fault =
    validityFault(presigned, now) ??
    payloadFault(payloadHash) ??
    unsignedHeaderFault(headers, { ...presigned, covered: COVERED_BY_QUERY }) ??
    (hasSessionToken(target) ? UNKNOWN_TOKEN : undefined);
  if (fault) return failed(fault);
  return { ok: true, claim: { ...presigned, payloadHash, target: withoutSignature(target) } };
}

function unsigned({ target }: SignableRequest): Failed {
  if (hasVersion2(target)) {
    return failed({
      code: "InvalidRequest",
      message:
        'Signature version 2 is not supported: sign with AWS4-HMAC-SHA256 (signature version 4). boto3 presigns URLs by version 2 unless its client is made with config=Config(signature_version="s3v4").',
    });
  }
  return failed({ code: "AccessDenied", message: NOT_SIGNED });
}

function skewFault(
  { date }: Authorization,
  { time, now }: { time: RequestTime; now: number },
): AuthFailure | undefined {
  if (Math.abs(now - time.at) > MAX_SKEW_MS) {
    return {
      code: "RequestTimeTooSkewed",
      message: `The request's time ${time.basic} and the server's ${new Date(now).toISOString()} are more than 15 minutes apart: set the clock.`,
    };
  }
  if (!time.basic.startsWith(date)) {
    return {
      code: "AuthorizationHeaderMalformed",
      message: `The Authorization header is malformed: Credential's date ${date} is not the day of ${time.basic}.`,
    };
  }
  return undefined;
}

/** The signer's clock may run ahead of ours. The URL itself says how long it holds. */
function validityFault({ time, expires }: Presigned, now: number): AuthFailure | undefined {
  const server = new Date(now).toISOString();
  if (now < time.at - MAX_SKEW_MS) {
    return {
      code: "AccessDenied",
      message: `Request is not yet valid: X-Amz-Date is ${time.basic}, and the server's time is ${server}.`,
    };
  }
  const until = time.at + expires * 1000;
  if (now <= until) return undefined;
  const end = new Date(until).toISOString();
  return {
    code: "AccessDenied",
    message: `Request has expired: it was valid until ${end}, and the server's time is ${server}.`,
    more: { "X-Amz-Expires": expires, Expires: end, ServerTime: server },
  };
}

const UNKNOWN_TOKEN: AuthFailure = {
  code: "InvalidToken",
  message: "Session tokens are not known here: unset AWS_SESSION_TOKEN.",
};

/** An unsigned header could have been added on the way: `host` and all that change an answer must be signed. */
function unsignedHeaderFault(
  headers: ReadonlyMap<string, string>,
  { signedHeaders, covered }: { signedHeaders: readonly string[]; covered: ReadonlySet<string> },
): AuthFailure | undefined {
  const counts = (name: string): boolean => name.startsWith("x-amz-") || name.startsWith(NOTE_PREFIX);
  const names = ["host", ...[...headers.keys()].filter(counts)];
  const open = names.filter((name) => !covered.has(name) && !signedHeaders.includes(name));
  const [first] = open;
  if (first !== undefined) return notSigned([first, ...open.slice(1)]);
  return headers.has("x-amz-security-token") ? UNKNOWN_TOKEN : undefined;
}

function notSigned(names: readonly [string, ...string[]]): AuthFailure {
  const [name, ...others] = names;
  const which = others.length === 0 ? `The header ${name} is` : `The headers ${names.join(", ")} are`;
  const fix = others.length === 0 ? "name it in SignedHeaders" : "name them in SignedHeaders";
  return {
    code: "AccessDenied",
    message: `${which} not signed: ${fix}.`,
    more: { HeadersNotSigned: names.join(", ") },
  };
}

function failed(fault: AuthFailure): Failed {
  return { ok: false, ...fault };
}
