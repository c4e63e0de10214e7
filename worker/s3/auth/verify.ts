import type { Caller, ChunkSigning, SigningKey } from "../../app.ts";
import { expiryText } from "../../keys/expiry.ts";
import type { KeyRing } from "../../keys/key-ring.ts";
import { canonicalRequests, type SignableRequest } from "./canonical-request.ts";
import { type Claim, readClaim } from "./claim.ts";
import type { FormClaim } from "./form-claim.ts";
import { type Failed, SIGNATURE } from "./parse-authorization.ts";
import { payloadOf } from "./payload.ts";
import { credentialScope, type SigningKeys, signatureIs, stringToSign } from "./signature.ts";

export interface VerifyOptions {
  readonly keys: KeyRing;
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly signingKeys: SigningKeys;
}

export type AuthResult = { readonly ok: true; readonly caller: Caller } | Failed;

/** Finds out who sent a request by its SigV4 signature, in header or query. Looks keys up only for well-formed ones. */
export async function verify(request: SignableRequest, options: VerifyOptions): Promise<AuthResult> {
  const read = readClaim(request, options.now);
  if (!read.ok) return read;
  const { claim } = read;
  const found = options.keys.find(claim.keyId);
  const key = found instanceof Promise ? await found : found;
  if (key === undefined) return unknownKey(claim.keyId, options.keys);
  const signingKey = options.signingKeys.get({
    secret: key.secret,
    date: claim.date,
    region: claim.region,
  });
  if (!matches(request, { claim, signingKey })) return MISMATCH;
  options.keys.used(key.id);
  const payload = payloadOf(claim.payloadHash, () => chunkSigning(claim, signingKey));
  const { id, scope, expiresAt } = key;
  return { ok: true, caller: { keyId: id, scope, payload, ...(expiresAt !== undefined && { expiresAt }) } };
}

/** Why a key was not found just now. */
function unknownKey(id: string, keys: KeyRing): Failed {
  const expiredAt = keys.expiryOf?.(id);
  // S3 has ExpiredToken, with 400, for session tokens alone (its list of error responses), which no key here has. SDKs answer
  // that one by fetching new credentials and trying again. A key that is no more is InvalidAccessKeyId.
  if (expiredAt !== undefined) {
    return {
      ok: false,
      code: "InvalidAccessKeyId",
      message: `The access key '${id}' ${expiryText(expiredAt)}: ask for another one ('sluice key create').`,
    };
  }
  const why = keys.obstacle?.(id) ?? "check AWS_ACCESS_KEY_ID";
  return {
    ok: false,
    code: "InvalidAccessKeyId",
    message: `The access key id '${id}' is not known here: ${why}.`,
    more: { AWSAccessKeyId: id },
  };
}

/** Finds out who signed the policy of a form: its signature is over the policy's base64 and nothing else. */
export async function verifyPolicy(
  claim: FormClaim,
  { keys, signingKeys }: Pick<VerifyOptions, "keys" | "signingKeys">,
): Promise<AuthResult> {
  const found = keys.find(claim.keyId);
  const key = found instanceof Promise ? await found : found;
  if (key === undefined) return unknownKey(claim.keyId, keys);
  const { date, region, policy, signature } = claim;
  const signingKey = signingKeys.get({ secret: key.secret, date, region });
  if (!SIGNATURE.test(signature) || !signatureIs(signingKey.sign(policy), signature)) return POLICY_MISMATCH;
  keys.used(key.id);
  const { id, scope, expiresAt } = key;
  const payload = { form: "plain", sha256: null } as const;
  return { ok: true, caller: { keyId: id, scope, payload, ...(expiresAt !== undefined && { expiresAt }) } };
}

function matches(
  { method, headers }: SignableRequest,
  { claim, signingKey }: { claim: Claim; signingKey: SigningKey },
): boolean {
  const { date, region, signature, time, target } = claim;
  for (const canonical of canonicalRequests({ method, headers, target }, claim)) {
    const text = stringToSign(canonical, { time: time.basic, date, region });
    if (signatureIs(signingKey.sign(text), signature)) return true;
  }
  return false;
}

function chunkSigning(claim: Claim, key: SigningKey): ChunkSigning {
  return { key, time: claim.time.basic, scope: credentialScope(claim), seed: claim.signature };
}

const MISMATCH: AuthResult = {
  ok: false,
  code: "SignatureDoesNotMatch",
  message:
    "The signature is not the one that this request has with the secret key: check AWS_SECRET_ACCESS_KEY, and that nothing changes the request on its way.",
};

const POLICY_MISMATCH: AuthResult = {
  ok: false,
  code: "SignatureDoesNotMatch",
  message:
    "x-amz-signature is not the signature that the form's policy has with the secret key: check the secret, and that the policy is sent as it was signed, in base64.",
};
