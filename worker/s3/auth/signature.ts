import { timingSafeEqual } from "node:crypto";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, type Hash, hexToBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import type { SigningKey } from "../../app.ts";
import { ANNOTATION_PREFIX } from "../request/annotation.ts";
import { encodeUri, encodeUriPath, type QueryPair, type Target } from "../request/target.ts";

// The platform's own SHA-256 is faster per byte, but each of its hash objects costs more than a kilobyte does here.
const sha256Of = hashing(sha256.create());

/** What a signing key is for. The service is always s3. */
interface SigningScope {
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
  const digest = bytesToHex(sha256Of(canonicalRequest));
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
  return { sign: hashing(hmac.create(sha256, key)) };
}

/** Hashes texts, each from the state that `start` has. One object does them all: to make one for each would cost as much as to hash. */
function hashing<H extends Hash<H>>(start: H): (text: string) => Uint8Array {
  const kept = start.clone();
  return (text) => start._cloneInto(kept).update(utf8(text)).digest();
}

const encoder = new TextEncoder();
const encoded = new Uint8Array(4096);

/** The UTF-8 of a text, good until the next call: an array for each text would cost as much as to hash it. */
function utf8(text: string): Uint8Array {
  const { read, written } = encoder.encodeInto(text, encoded);
  return read === text.length ? encoded.subarray(0, written) : encoder.encode(text);
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

/** A request as far as a signature covers it. */
export interface SignableRequest {
  readonly method: string;
  readonly target: Target;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

interface Signed {
  readonly signedHeaders: readonly string[];
  /** The value of x-amz-content-sha256. */
  readonly payloadHash: string;
}

/** The ways in which a signer may have put one request into canonical form. */
type Reading =
  /** As AWS describes it. */
  | "canonical"
  /** The platform joins a header that came twice with ", ", AWS with ",": see canBeJoined. */
  | "joined-headers"
  /** curl before 8 signs path and query as they go out, neither encoded nor sorted. */
  | "as-sent";

/** The readings of a request worth a try, the likely one first. Each covers all of it: a try gives nothing away. */
export const READINGS: readonly Reading[] = ["canonical", "joined-headers", "as-sent"];

/** "Task 1: Create a Canonical Request" of AWS's "Authenticating Requests: Using the Authorization Header". */
export function canonicalRequest(
  { method, target, headers }: SignableRequest,
  { signedHeaders, payloadHash, reading }: Signed & { reading: Reading },
): string {
  const asSent = reading === "as-sent";
  const joined = reading === "joined-headers";
  let lines = `${method}\n${asSent ? target.rawPath : encodeUriPath(target.path)}\n`;
  lines += `${asSent ? target.rawQuery : canonicalQuery(target.query)}\n`;
  for (const name of signedHeaders) {
    const sent = (headers.get(name) ?? "").trim();
    const value = sent.includes("  ") ? sent.replace(/ {2,}/g, " ") : sent;
    lines += `${name}:${joined && canBeJoined(name) ? value.replaceAll(", ", ",") : value}\n`;
  }
  return `${lines}\n${signedHeaders.join(";")}\n${payloadHash}`;
}

/** Of the `x-amz-*`, those that are lists: the Java SDK sends one header an entry. */
const AMZ_LISTS: ReadonlySet<string> = new Set([
  "x-amz-object-attributes",
  "x-amz-optional-object-attributes",
]);
/** Kept with the object as they come, and no lists. */
const KEPT_TEXTS: ReadonlySet<string> = new Set(["content-disposition", "content-type", "expires"]);

/**
 * Whether "a, b" may stand for "a" and "b" in two headers. If the space counts (in a key to copy from, in metadata), the
 * value must be what was signed to the byte: anybody on the way could have put the space in.
 */
function canBeJoined(name: string): boolean {
  if (name.startsWith(ANNOTATION_PREFIX)) return false;
  return name.startsWith("x-amz-") ? AMZ_LISTS.has(name) : !KEPT_TEXTS.has(name);
}

function canonicalQuery(query: readonly QueryPair[]): string {
  if (query.length === 0) return "";
  // Encoded text is ASCII, so that comparing strings is comparing bytes.
  const encoded = query.map(([name, value]) => [encodeUri(name), encodeUri(value)] as const);
  encoded.sort(([a, av], [b, bv]) => (a === b ? compare(av, bv) : compare(a, b)));
  return encoded.map(([name, value]) => `${name}=${value}`).join("&");
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
