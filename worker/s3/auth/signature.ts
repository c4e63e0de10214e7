import { createHmac, timingSafeEqual } from "node:crypto";
import { type HmacKey, hmac, hmacKey, sha256Hex } from "./short-sha256.ts";

/** What a signing key is for. The service is always s3. */
export interface SigningScope {
  readonly secret: string;
  /** `YYYYMMDD` */
  readonly date: string;
  readonly region: string;
}

/** "Task 2: Create a String to Sign". `time` is `YYYYMMDDTHHMMSSZ`. */
export function stringToSign(
  canonicalRequest: string,
  { time, date, region }: { time: string; date: string; region: string },
): string {
  const digest = sha256Hex(canonicalRequest);
  return `AWS4-HMAC-SHA256\n${time}\n${credentialScope({ date, region })}\n${digest}`;
}

/** `<YYYYMMDD>/<region>/s3/aws4_request` */
export function credentialScope({ date, region }: { date: string; region: string }): string {
  return `${date}/${region}/s3/aws4_request`;
}

/** "Task 3", its first half: the key derived from a secret. */
function deriveSigningKey({ secret, date, region }: SigningScope): Uint8Array {
  return [date, region, "s3", "aws4_request"].reduce<Uint8Array>(
    hmacOfAnyKey,
    new TextEncoder().encode(`AWS4${secret}`),
  );
}

/** "Task 3", its second half: the signature, 32 bytes. */
export function sign(text: string, signingKey: Uint8Array): Uint8Array {
  const known = preparedKeys.get(signingKey);
  const prepared = known ?? hmacKey(signingKey);
  if (!known) preparedKeys.set(signingKey, prepared);
  return hmac(prepared, text);
}

/** Signing keys, ready for use: one signs many requests. */
const preparedKeys = new WeakMap<Uint8Array, HmacKey>();

/** Compares in a time that tells nothing about where they differ. `hex` is 64 hex digits. */
export function signatureIs(signature: Uint8Array, hex: string): boolean {
  return timingSafeEqual(signature, fromHex(hex));
}

function fromHex(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

function hmacOfAnyKey(key: Uint8Array, text: string): Uint8Array {
  return createHmac("sha256", key).update(text, "utf8").digest();
}

/** Keeps derived keys: one serves a key and region for a day. Bounded, because the region is the client's choice. */
export class SigningKeys {
  readonly #keys = new Map<string, Uint8Array>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get(scope: SigningScope): Uint8Array {
    const name = `${scope.date}/${scope.region}/${scope.secret}`;
    const known = this.#keys.get(name);
    if (known) return known;
    if (this.#keys.size >= this.#max) this.#keys.clear();
    const key = deriveSigningKey(scope);
    this.#keys.set(name, key);
    return key;
  }
}
