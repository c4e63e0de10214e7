import type { Caller, ChunkSigning, Payload, SigningKey } from "../../app.ts";
import { ExpiringMap } from "../../keys/expiring-map.ts";
import { expiryText } from "../../keys/expiry.ts";
import type { AccessKey, KeyRing } from "../../keys/key-ring.ts";
import { isSessionId } from "../../keys/sessions.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { authorityOf, parseTarget } from "../request/target.ts";
import { type Claim, payloadOf, readClaim } from "./claim.ts";
import type { FormClaim } from "./form-claim.ts";
import { type Credential, SIGNATURE } from "./parse-authorization.ts";
import {
  canonicalRequest,
  credentialScope,
  READINGS,
  type SignableRequest,
  SigningKeys,
  signatureIs,
  stringToSign,
} from "./signature.ts";

export interface VerifyOptions {
  readonly keys: KeyRing;
  /** Milliseconds since 1970. */
  readonly now: number;
  /**
   * Called when the key is not in memory, while it is looked up, with its id. Not for an id that was signed wrongly with, or that
   * nobody had, within the last minute: who only guesses keeps no branch at work.
   */
  readonly meanwhile?: (keyId: string) => void;
}

const signingKeys = new SigningKeys(100);

/** Ids that a request came with whose signature was wrong, or whose key is not there; a minute each. */
const suspects = new ExpiringMap<true>({ ttlMs: 60_000, maxEntries: 10_000 });

/** Who sent a request, by its SigV4 signature in header or query. Looks up well-formed keys only. Throws S3's codes. */
export async function verify(
  request: SignableRequest,
  { keys, now, meanwhile }: VerifyOptions,
): Promise<Caller> {
  const claim = readClaim(request, now);
  const suspect = () => suspects.set(claim.keyId, { value: true, since: now });
  const looking = () => {
    if (!suspects.get(claim.keyId, now)) meanwhile?.(claim.keyId);
  };
  const { key, signingKey } = await findKey(claim, keys, { looking, unknown: suspect });
  if (!matches(request, { claim, signingKey })) {
    suspect();
    throw s3Error.SignatureDoesNotMatch(
      "The signature is not the one that this request has with the secret key: check AWS_SECRET_ACCESS_KEY, and that nothing changes the request on its way.",
    );
  }
  keys.used(key.id);
  return callerOf(
    key,
    payloadOf(claim, () => chunkSigning(claim, signingKey)),
  );
}

/** Finds out who signed the policy of a form: its signature is over the policy's base64 and nothing else. */
export async function verifyPolicy(claim: FormClaim, keys: KeyRing): Promise<Caller> {
  const { key, signingKey } = await findKey(claim, keys);
  const { policy, signature } = claim;
  if (!SIGNATURE.test(signature) || !signatureIs(signingKey.sign(policy), signature)) {
    throw s3Error.SignatureDoesNotMatch(
      "x-amz-signature is not the signature that the form's policy has with the secret key: check the secret, and that the policy is sent as it was signed, in base64.",
    );
  }
  keys.used(key.id);
  return callerOf(key, { form: "plain", sha256: null });
}

async function findKey(
  { keyId, date, region }: Credential,
  keys: KeyRing,
  tell?: { readonly looking: () => void; readonly unknown: () => void },
): Promise<{ readonly key: AccessKey; readonly signingKey: SigningKey }> {
  const found = keys.find(keyId);
  if (found instanceof Promise) tell?.looking();
  const key = found instanceof Promise ? await found : found;
  if (key === undefined) {
    tell?.unknown();
    throw unknownKey(keyId, keys);
  }
  return { key, signingKey: signingKeys.get({ secret: key.secret, date, region }) };
}

/** Why a key was not found just now. */
function unknownKey(id: string, keys: KeyRing): S3Error {
  const expiredAt = keys.expiryOf?.(id);
  // S3 has ExpiredToken, with 400, for session tokens alone (its list of error responses), which no key here has. SDKs answer
  // that one by fetching new credentials and trying again. A key that is no more is InvalidAccessKeyId.
  if (expiredAt !== undefined) {
    const mend = isSessionId(id) ? "log in again" : "ask for another one ('sluice key create')";
    return s3Error.InvalidAccessKeyId(`The access key '${id}' ${expiryText(expiredAt)}: ${mend}.`);
  }
  const why = keys.obstacle?.(id) ?? "check AWS_ACCESS_KEY_ID";
  return s3Error.InvalidAccessKeyId(`The access key id '${id}' is not known here: ${why}.`, {
    more: { AWSAccessKeyId: id },
  });
}

function callerOf({ id, session, scope, expiresAt }: AccessKey, payload: Payload): Caller {
  const ofSession = session !== undefined && { session };
  return { keyId: id, scope, payload, ...ofSession, ...(expiresAt !== undefined && { expiresAt }) };
}

function matches(
  { method, headers }: SignableRequest,
  { claim, signingKey }: { claim: Claim; signingKey: SigningKey },
): boolean {
  const { date, region, signature, signedHeaders, payloadHash, time, target } = claim;
  let likely: string | undefined;
  return READINGS.some((reading) => {
    const signed = { signedHeaders, payloadHash, reading };
    const canonical = canonicalRequest({ method, headers, target }, signed);
    if (canonical === likely) return false;
    likely ??= canonical;
    const text = stringToSign(canonical, { time: time.basic, date, region });
    return signatureIs(signingKey.sign(text), signature);
  });
}

function chunkSigning(claim: Claim, key: SigningKey): ChunkSigning {
  return { key, time: claim.time.basic, scope: credentialScope(claim), seed: claim.signature };
}

/** Finds out who sent a request of the control API, which is signed as one of the S3 gateway is. Throws S3's codes. */
export async function authenticate(request: Request, options: VerifyOptions): Promise<Caller> {
  const target = parseTarget(request.url);
  if (target === undefined) throw s3Error.InvalidURI();
  return await verify({ method: request.method, target, headers: signableHeaders(request) }, options);
}

/**
 * The headers as the client sent them, in one pass. Cloudflare and `wrangler dev` rewrite Accept-Encoding, which
 * some clients sign, and keep the original in `request.cf`.
 */
export function signableHeaders(request: Request): Map<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of request.headers) headers.set(name, value);
  const acceptEncoding = request.cf?.clientAcceptEncoding;
  if (typeof acceptEncoding === "string") headers.set("accept-encoding", acceptEncoding);
  if (!headers.has("host")) headers.set("host", authorityOf(request.url));
  return headers;
}
