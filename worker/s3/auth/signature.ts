import { timingSafeEqual } from "node:crypto";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, hexToBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import type { SigningKey } from "../../app.ts";

// The platform's own SHA-256 is faster per byte, but each of its hash objects costs more than a kilobyte does here.

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
  const digest = bytesToHex(sha256(utf8ToBytes(canonicalRequest)));
  return `AWS4-HMAC-SHA256\n${time}\n${credentialScope({ date, region })}\n${digest}`;
}

/** `<YYYYMMDD>/<region>/s3/aws4_request` */
export function credentialScope({ date, region }: { date: string; region: string }): string {
  return `${date}/${region}/s3/aws4_request`;
}

/** "Task 3": the key derived from a secret, ready to sign many texts. */
function deriveSigningKey({ secret, date, region }: SigningScope): SigningKey {
  const key = [date, region, "s3", "aws4_request"].reduce<Uint8Array>(
    (above, text) => hmac(sha256, above, utf8ToBytes(text)),
    utf8ToBytes(`AWS4${secret}`),
  );
  const prepared = hmac.create(sha256, key);
  return { sign: (text) => prepared.clone().update(utf8ToBytes(text)).digest() };
}

/** Compares in constant time: how long it takes must not show how much of a forged signature is right. `hex` is 64 hex digits. */
export function signatureIs(signature: Uint8Array, hex: string): boolean {
  return timingSafeEqual(signature, hexToBytes(hex));
}

/** Keeps derived keys: one serves a key and region for a day. Bounded, because the region is the client's choice. */
export class SigningKeys {
  readonly #keys = new Map<string, SigningKey>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get(scope: SigningScope): SigningKey {
    const name = `${scope.date}/${scope.region}/${scope.secret}`;
    const known = this.#keys.get(name);
    if (known) return known;
    if (this.#keys.size >= this.#max) this.#keys.clear();
    const key = deriveSigningKey(scope);
    this.#keys.set(name, key);
    return key;
  }
}
