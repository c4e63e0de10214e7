import { createHash } from "node:crypto";
import { toHex } from "../../../../protocol/digest.ts";
import type { ChunkSigning, Payload } from "../../../../worker/app.ts";
import type { ByteSource } from "../../../../worker/blobs/body-reader.ts";
import { S3Error } from "../../../../worker/s3/answer/errors.ts";
import { SigningKeys } from "../../../../worker/s3/auth/signature.ts";
import { type OpenBody, openBody } from "../../../../worker/s3/body/open-body.ts";
import { EXAMPLE_KEY, EXAMPLE_SCOPE, EXAMPLE_TIME } from "../auth/support.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export const SIGNING: ChunkSigning = {
  key: new SigningKeys(1).get({ secret: EXAMPLE_KEY.secret, date: "20130524", region: "us-east-1" }),
  time: EXAMPLE_TIME,
  scope: EXAMPLE_SCOPE,
  seed: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
};
export const UNSIGNED_TRAILER: Payload = { form: "aws-chunked", signing: null, trailer: "expected" };
export const SIGNED: Payload = { form: "aws-chunked", signing: SIGNING, trailer: "none" };
export const SIGNED_TRAILER: Payload = { form: "aws-chunked", signing: SIGNING, trailer: "expected" };

const EMPTY_SHA256 = sha256Hex("");

function sha256Hex(content: string | Uint8Array): string {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  return createHash("sha256").update(bytes).digest("hex");
}

export interface Framing {
  readonly signing?: ChunkSigning;
  readonly trailer?: readonly (readonly [name: string, value: string])[];
}

/** Bytes in aws-chunked framing, cut where `sizes` says. */
export function framed(
  bytes: Uint8Array,
  { sizes, ...framing }: Framing & { sizes: readonly number[] },
): Bytes {
  const pieces: (string | Uint8Array)[] = [];
  let previous = framing.signing?.seed ?? "";
  const next = (name: string, hashes: string): string => {
    const { key, time, scope } = framing.signing as ChunkSigning;
    previous = toHex(key.sign(`AWS4-HMAC-SHA256-${name}\n${time}\n${scope}\n${previous}\n${hashes}`));
    return previous;
  };
  const head = (chunk: Uint8Array): string => {
    const size = chunk.length.toString(16);
    if (!framing.signing) return `${size}\r\n`;
    return `${size};chunk-signature=${next("PAYLOAD", `${EMPTY_SHA256}\n${sha256Hex(chunk)}`)}\r\n`;
  };
  let at = 0;
  for (const size of sizes) {
    const chunk = bytes.subarray(at, at + size);
    pieces.push(head(chunk), chunk, "\r\n");
    at += size;
  }
  pieces.push(head(new Uint8Array(0)));
  const trailer = framing.trailer ?? [];
  for (const [name, value] of trailer) pieces.push(`${name}:${value}\r\n`);
  if (framing.signing && framing.trailer) {
    const canonical = trailer.map(([name, value]) => `${name}:${value}\n`).join("");
    pieces.push(`x-amz-trailer-signature:${next("TRAILER", sha256Hex(canonical))}\r\n`);
  }
  return joined(...pieces, "\r\n");
}

export function joined(...pieces: readonly (string | Uint8Array)[]): Bytes {
  const parts = pieces.map((piece) => (typeof piece === "string" ? new TextEncoder().encode(piece) : piece));
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Bytes that arrive in pieces of random sizes; the buffer of each read is really transferred. */
export class ArrivingBytes implements ByteSource {
  readonly #bytes: Uint8Array;
  readonly #random: () => number;
  #at = 0;
  reads = 0;
  cancelled = false;

  constructor(bytes: Uint8Array, random: () => number) {
    this.#bytes = bytes;
    this.#random = random;
  }

  async read(space: Bytes, atLeast: number): Promise<Bytes> {
    const { byteOffset, length } = space;
    if (atLeast < 1 || atLeast > length) throw new Error(`asked for ${atLeast} in a space of ${length}`);
    this.reads++;
    const buffer = structuredClone(space.buffer, { transfer: [space.buffer] });
    const most = Math.floor(atLeast + this.#random() * (length - atLeast + 1));
    const part = this.#bytes.subarray(this.#at, this.#at + most);
    new Uint8Array(buffer, byteOffset).set(part);
    this.#at += part.length;
    return new Uint8Array(buffer, byteOffset, part.length);
  }

  async cancel(): Promise<void> {
    this.cancelled = true;
  }
}

/** All bytes of a source, read into spaces of random sizes at random places of their buffers. */
export async function drained(source: ByteSource, random: () => number): Promise<Bytes> {
  const pieces: Uint8Array[] = [];
  for (;;) {
    const length = 1 + Math.floor(random() ** 3 * 200_000);
    const offset = Math.floor(random() * 20);
    const atLeast = 1 + Math.floor(random() * length);
    const read = await source.read(
      new Uint8Array(new ArrayBuffer(offset + length + 7), offset, length),
      atLeast,
    );
    if (read.length > 0 && read.byteOffset !== offset)
      throw new Error("the bytes are not where the space began");
    pieces.push(read.slice());
    if (read.length < atLeast) return joined(...pieces);
  }
}

/** A body as openBody gives it, whose bytes come from memory. */
export function opened(
  payload: Payload,
  { headers = {}, body }: { headers?: Record<string, string>; body?: Uint8Array },
): OpenBody {
  return openBody({
    caller: { keyId: EXAMPLE_KEY.id, scope: EXAMPLE_KEY.scope, payload },
    headers: new Map(Object.entries(headers)),
    body: body === undefined ? null : new Blob([body.slice()]).stream(),
  });
}

/** What a body that must be faulty is refused with. */
export async function faultOf(open: () => OpenBody): Promise<{ code: string; message: string }> {
  try {
    const body = open();
    if (body.source === null) throw new Error("the request has no body");
    await drained(body.source, () => 0.99);
    const late = body.fault();
    if (late) throw late;
  } catch (error) {
    if (error instanceof S3Error) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("the body is good");
}
