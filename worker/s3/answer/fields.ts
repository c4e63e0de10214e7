import { contentName } from "../../../protocol/content.ts";
import type { Checksum, ChecksumAlgorithm } from "../../core/checksums.ts";

let lastAt = Number.NaN;
let lastText = "";

/** A time, in milliseconds since 1970, as HTTP writes it. The last one is kept, because a branch mostly has one time for all its files. */
export function httpDate(at: number): string {
  if (at !== lastAt) {
    lastAt = at;
    lastText = new Date(at).toUTCString();
  }
  return lastText;
}

/** The header that carries a checksum of an algorithm. */
export function checksumHeader(algorithm: ChecksumAlgorithm): string {
  return `x-amz-checksum-${algorithm.toLowerCase()}`;
}

/** The tag that carries it in XML. */
export function checksumTag(algorithm: ChecksumAlgorithm): string {
  return `Checksum${algorithm}`;
}

/** The tags of an object's checksum in XML. */
export function checksumTags({ algorithm, type, value }: Checksum): Record<string, string> {
  return { [checksumTag(algorithm)]: value, ChecksumType: type };
}

/** Values that S3 has, and that are the same for every bucket and object here. */
export const OWNER_ID = "0".repeat(32);
export const OWNER = { ID: OWNER_ID, DisplayName: "sluice" };
export const STORAGE_CLASS = "STANDARD";

/** The ETag of a content: its name in quotes, the same for a PUT, a copy and an upload in parts. */
export function etag(content: { readonly digest: string; readonly size: number }): string {
  return `"${contentName(content)}"`;
}

/** A time, in milliseconds since 1970, as S3's XML writes it. */
export function isoDate(at: number): string {
  return new Date(at).toISOString();
}
