import type { Caller } from "../../app.ts";
import { canonicalRequests, type SignableRequest } from "./canonical-request.ts";
import type { AuthFailure } from "./failure.ts";
import { type Authorization, parseAuthorization } from "./parse-authorization.ts";
import { MAX_SKEW_MS, type RequestTime, requestTime } from "./request-time.ts";
import { type SigningKeys, sign, signatureIs, stringToSign } from "./signature.ts";

export interface VerifyOptions {
  readonly rootKey: { readonly id: string; readonly secret: string };
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly signingKeys: SigningKeys;
}

export type AuthResult =
  | { readonly ok: true; readonly caller: Caller }
  | ({ readonly ok: false } & AuthFailure);

const UNSIGNED = "UNSIGNED-PAYLOAD";
const SHA256_HEX = /^[0-9a-f]{64}$/;
/** Query parameters that carry a signature: version 4, then version 2. */
const PRESIGNED_V4 = ["X-Amz-Algorithm", "X-Amz-Signature", "X-Amz-Credential"];
const PRESIGNED_V2 = "AWSAccessKeyId";
/** They are part of what is signed in any case. */
const COVERED = new Set(["x-amz-content-sha256", "x-amz-date"]);

/** Who sent a request, by its SigV4 signature in the Authorization header. */
export function verify(request: SignableRequest, options: VerifyOptions): AuthResult {
  const header = request.headers.get("authorization");
  if (header === undefined) return withoutHeader(request);
  const parsed = parseAuthorization(header);
  if (!parsed.ok) return parsed;
  const { authorization } = parsed;
  const time = requestTime(request.headers);
  const payloadHash = request.headers.get("x-amz-content-sha256")?.trim();
  const fault =
    timeFault(authorization, { time, now: options.now }) ??
    keyFault(authorization, options) ??
    payloadFault(payloadHash) ??
    unsignedHeaderFault(request, authorization);
  if (fault) return { ok: false, ...fault };
  if (time === undefined || payloadHash === undefined) return mismatch();
  if (!matches(request, { authorization, time, payloadHash, options })) return mismatch();
  if (payloadHash.startsWith("STREAMING-")) return notYet(`x-amz-content-sha256: ${payloadHash}`);
  return {
    ok: true,
    caller: { keyId: authorization.keyId, bodySha256: payloadHash === UNSIGNED ? null : payloadHash },
  };
}

function matches(
  request: SignableRequest,
  {
    authorization,
    time,
    payloadHash,
    options,
  }: { authorization: Authorization; time: RequestTime; payloadHash: string; options: VerifyOptions },
): boolean {
  const { date, region, signedHeaders, signature } = authorization;
  const key = options.signingKeys.get({ secret: options.rootKey.secret, date, region });
  for (const canonical of canonicalRequests(request, { signedHeaders, payloadHash })) {
    const text = stringToSign(canonical, { time: time.basic, date, region });
    if (signatureIs(sign(text, key), signature)) return true;
  }
  return false;
}

function withoutHeader({ target }: SignableRequest): AuthResult {
  const names = new Set(target.query.map(([name]) => name));
  if (PRESIGNED_V4.some((name) => names.has(name))) return notYet("a presigned URL");
  if (names.has(PRESIGNED_V2)) {
    return {
      ok: false,
      code: "InvalidRequest",
      message: "Signature version 2 is not supported: sign with AWS4-HMAC-SHA256 (signature version 4).",
    };
  }
  return {
    ok: false,
    code: "AccessDenied",
    message: "The request is not signed: send an Authorization header of AWS Signature Version 4.",
  };
}

function timeFault(
  { date }: Authorization,
  { time, now }: { time: RequestTime | undefined; now: number },
): AuthFailure | undefined {
  if (time === undefined) {
    return {
      code: "AccessDenied",
      message: "The request has no valid time: send x-amz-date as YYYYMMDDTHHMMSSZ, or Date.",
    };
  }
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

function keyFault({ keyId }: Authorization, { rootKey }: VerifyOptions): AuthFailure | undefined {
  if (keyId === rootKey.id) return undefined;
  return {
    code: "InvalidAccessKeyId",
    message: `The access key id '${keyId}' is not known here: check AWS_ACCESS_KEY_ID.`,
  };
}

function payloadFault(hash: string | undefined): AuthFailure | undefined {
  if (hash === undefined) {
    return {
      code: "InvalidRequest",
      message: `The header x-amz-content-sha256 is missing: send the body's SHA-256 in hex, or ${UNSIGNED}.`,
    };
  }
  if (hash === UNSIGNED || hash.startsWith("STREAMING-") || SHA256_HEX.test(hash)) return undefined;
  return {
    code: "InvalidArgument",
    message: `x-amz-content-sha256 is '${hash}': it must be the body's SHA-256 in lower-case hex, or ${UNSIGNED}.`,
  };
}

/** What is not signed could have been added on the way: `host` and what changes an answer must be signed. */
function unsignedHeaderFault(
  { headers }: SignableRequest,
  { signedHeaders }: Authorization,
): AuthFailure | undefined {
  const isOpen = (name: string): boolean => !COVERED.has(name) && !signedHeaders.includes(name);
  if (isOpen("host")) return notSigned("host");
  for (const name of headers.keys()) {
    if (name.startsWith("x-amz-") && isOpen(name)) return notSigned(name);
  }
  if (!headers.has("x-amz-security-token")) return undefined;
  return {
    code: "InvalidToken",
    message: "Session tokens are not known here: unset AWS_SESSION_TOKEN.",
  };
}

function notSigned(name: string): AuthFailure {
  return { code: "AccessDenied", message: `The header ${name} is not signed: name it in SignedHeaders.` };
}

function mismatch(): AuthResult {
  return {
    ok: false,
    code: "SignatureDoesNotMatch",
    message:
      "The signature is not the one that this request has with the secret key: check AWS_SECRET_ACCESS_KEY, and that nothing changes the request on its way.",
  };
}

function notYet(what: string): AuthResult {
  return {
    ok: false,
    code: "NotImplemented",
    message: `${what} is not implemented yet: sign in the Authorization header, with the body's SHA-256 or ${UNSIGNED}.`,
  };
}
