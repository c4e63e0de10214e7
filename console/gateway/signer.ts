import { AwsV4Signer } from "aws4fetch";

/*
 * Who signs: a session, or a key that somebody entered. Of the secret there is only a key of WebCrypto's, which signs and tells no
 * script what it is. SigV4 begins with an HMAC of the day under "AWS4" and the secret, which is all that such a key does. What
 * follows from that is good for the day, and lives in memory alone.
 */

export interface Signer {
  /** What signatures name: the id of a session or of a key. */
  readonly id: string;
  /** The id of the key as which it acts. */
  readonly keyId: string;
  /** What that key is for, if its maker said so. */
  readonly description?: string;
  /** HMAC-SHA-256 under "AWS4" and the secret; it can't be exported. */
  readonly signing: CryptoKey;
  /** Of a session: when it is over by the clock of this machine, in milliseconds since 1970. */
  readonly endsAt?: number;
}

/** A key as somebody entered it. */
export interface Entered {
  readonly id: string;
  readonly secret: string;
}

const REGION = "auto";
const SERVICE = "s3";

/** The key under which SigV4 begins, of a secret. */
export function importSecret(secret: string): Promise<CryptoKey> {
  return importKey(encoder.encode(`AWS4${secret}`));
}

interface Signable {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  /** When it is signed, in milliseconds since 1970. */
  readonly at: number;
}

/** Signs requests, and derives what it signs with once a day. */
export class RequestSigner {
  readonly #signer: Signer;
  /** What aws4fetch finds in place of deriving it from the secret. */
  readonly #derived = new Map<string, ArrayBuffer>();

  constructor(signer: Signer) {
    this.#signer = signer;
  }

  async sign({ at, ...request }: Signable): Promise<{ readonly url: URL; readonly headers: Headers }> {
    // YYYYMMDDTHHMMSSZ
    const datetime = new Date(at).toISOString().replace(/[:-]|\.\d{3}/g, "");
    const day = datetime.slice(0, 8);
    const { id, signing } = this.#signer;
    // As aws4fetch names it: the secret, which it does not have, comes first.
    const name = ["", day, REGION, SERVICE].join();
    if (!this.#derived.has(name)) this.#derived.set(name, await derive(signing, day));
    const ask = { ...request, datetime, region: REGION, service: SERVICE, cache: this.#derived };
    return await new AwsV4Signer({ ...ask, accessKeyId: id, secretAccessKey: "" }).sign();
  }
}

/** The key that signs on a day (AWS, "Derive a signing key for Signature Version 4"). */
async function derive(signing: CryptoKey, day: string): Promise<ArrayBuffer> {
  let derived = await mac(signing, day);
  for (const text of [REGION, SERVICE, "aws4_request"]) derived = await mac(await importKey(derived), text);
  return derived;
}

const encoder = new TextEncoder();
const HMAC = { name: "HMAC", hash: "SHA-256" };

function importKey(bytes: BufferSource): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", bytes, HMAC, false, ["sign"]);
}

function mac(key: CryptoKey, text: string): Promise<ArrayBuffer> {
  return crypto.subtle.sign("HMAC", key, encoder.encode(text));
}
