import { createHash } from "node:crypto";
import { type Ask, good, s3, xml } from "../support.ts";

export const MIB = 1024 * 1024;
/** S3's smallest part that is not the last. */
export const SMALLEST = 5 * MIB;

export interface Upload {
  readonly id: string;
  /** Path and query that name it, with the key in the path. */
  readonly target: string;
  /** The same without the key. */
  readonly keyless: string;
}

/** A part as a completion names it: `etag` as the gateway answered it. */
export interface Done {
  readonly number: number;
  readonly etag: string;
  readonly checksums?: Readonly<Record<string, string>>;
}

/** Begins an upload of `/<bucket>/<key>`. */
export async function begin(path: string, ask: Ask = {}): Promise<Upload> {
  const { InitiateMultipartUploadResult: begun } = await xml(good(`POST ${path}?uploads`, ask));
  const query = `?uploadId=${begun.UploadId}`;
  return { id: begun.UploadId, target: path + query, keyless: `/${path.split("/")[1]}${query}` };
}

export async function part(
  { target }: Pick<Upload, "target">,
  number: number,
  ask: Ask | Uint8Array<ArrayBuffer> | string,
): Promise<Done> {
  const asked = typeof ask === "string" || ask instanceof Uint8Array ? { body: ask } : ask;
  const response = await good(`PUT ${target}&partNumber=${number}`, asked);
  return { number, etag: response.headers.get("etag") ?? "" };
}

export function completion(parts: readonly Done[]): string {
  const tags = parts.map(({ number, etag, checksums = {} }) => {
    const sums = Object.entries(checksums).map(([tag, value]) => `<${tag}>${value}</${tag}>`);
    return `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag>${sums.join("")}</Part>`;
  });
  return `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${tags.join("")}</CompleteMultipartUpload>`;
}

export function complete(
  { target }: Pick<Upload, "target">,
  parts: readonly Done[],
  headers: Record<string, string> = {},
): Promise<Response> {
  return s3(`POST ${target}`, { body: completion(parts), headers });
}

/** What CompleteMultipartUpload answered, where it must be good. */
export async function completed(response: Response | Promise<Response>): Promise<Record<string, string>> {
  const { CompleteMultipartUploadResult: result, ...other } = await xml(response);
  if (!result) throw new Error(`not completed: ${JSON.stringify(other)}`);
  return result;
}

/** Bytes that differ from place to place, and with the seed. */
export function bytes(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = seed >>> 0 || 1;
  for (let index = 0; index < words.length; index++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[index] = state;
  }
  return new Uint8Array(words.buffer, 0, length).slice();
}

/** The ETag that the contract promises, worked out top down, where the product goes bottom up. */
export function expectedEtag(content: Uint8Array): string {
  const hex = Array.from(treeHash(content), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `"${hex}-${content.length}"`;
}

function treeHash(content: Uint8Array): Uint8Array {
  if (content.length <= MIB) return sha256(content);
  // The left half has the largest power of two of leaves that leaves some for the right one.
  let left = MIB;
  while (left * 2 < content.length) left *= 2;
  return sha256(treeHash(content.subarray(0, left)), treeHash(content.subarray(left)));
}

export function sha256(...pieces: readonly Uint8Array[]): Uint8Array {
  const hash = createHash("sha256");
  for (const piece of pieces) hash.update(piece);
  return new Uint8Array(hash.digest());
}
