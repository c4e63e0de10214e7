import { toHex } from "../../../../protocol/digest.ts";
import type { Caller } from "../../../../worker/app.ts";
import type { AccessKey, KeyRing } from "../../../../worker/keys/key-ring.ts";
import { S3Error } from "../../../../worker/s3/answer/errors.ts";
import {
  canonicalRequest,
  type SignableRequest,
  SigningKeys,
  stringToSign,
} from "../../../../worker/s3/auth/signature.ts";
import { type VerifyOptions, verify as verifyOrThrow } from "../../../../worker/s3/auth/verify.ts";
import { parseTarget, type Target } from "../../../../worker/s3/request/target.ts";

/** The key, day and region of all worked examples of AWS. */
export const EXAMPLE_KEY: AccessKey = {
  id: "AKIAIOSFODNN7EXAMPLE",
  secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  scope: { level: "admin", repos: null },
};
export const EXAMPLE_TIME = "20130524T000000Z";
export const EXAMPLE_NOW = Date.UTC(2013, 4, 24);
export const EXAMPLE_SCOPE = "20130524/us-east-1/s3/aws4_request";

/** A ring of a few keys, answered at once. */
export function ringOf(...keys: readonly AccessKey[]): KeyRing {
  return { find: (id) => keys.find((key) => key.id === id), used() {} };
}

export function options({ now = EXAMPLE_NOW, key = EXAMPLE_KEY } = {}): VerifyOptions {
  return { keys: ringOf(key), now };
}

export function targetOf(target: string, host = "examplebucket.s3.amazonaws.com"): Target {
  const parsed = parseTarget(`https://${host}${target}`);
  if (parsed === undefined) throw new Error(`no target: ${target}`);
  return parsed;
}

/** A presigned PUT of the example's key, with more query parameters, for a body of this x-amz-content-sha256. */
export function presignedPut({
  query,
  payloadHash,
}: {
  query: string;
  payloadHash: string;
}): SignableRequest {
  const unsigned = `/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=${EXAMPLE_KEY.id}/${EXAMPLE_SCOPE}&X-Amz-Date=${EXAMPLE_TIME}&X-Amz-Expires=60&X-Amz-SignedHeaders=host&${query}`;
  const request = {
    method: "PUT",
    target: targetOf(unsigned),
    headers: new Map([["host", "examplebucket.s3.amazonaws.com"]]),
  };
  const scope = { date: "20130524", region: "us-east-1" };
  const canonical = canonicalRequest(request, { signedHeaders: ["host"], payloadHash, reading: "canonical" });
  const key = new SigningKeys(1).get({ secret: EXAMPLE_KEY.secret, ...scope });
  const signature = toHex(key.sign(stringToSign(canonical, { time: EXAMPLE_TIME, ...scope })));
  return { ...request, target: targetOf(`${unsigned}&X-Amz-Signature=${signature}`) };
}

/** The caller of a request that must be let in. */
export async function callerOf(request: SignableRequest, from = options()): Promise<Caller> {
  return await verifyOrThrow(request, from);
}

/** Whether a request is let in, and who sent it or why not. */
export async function verify(request: SignableRequest, from: VerifyOptions) {
  try {
    return { ok: true, caller: await verifyOrThrow(request, from) };
  } catch (error) {
    if (!(error instanceof S3Error)) throw error;
    return { ok: false, code: error.code, message: error.message };
  }
}
