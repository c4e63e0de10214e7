import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { BucketAddress } from "../../../protocol/names.ts";
import type { FileCalls, FileRead } from "../../branch/contract/files.ts";
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

/** What a write did. */
interface Write {
  readonly path: string;
  readonly content: ContentId;
  /** Null if the same was there already, so that no commit was made. */
  readonly commit: string | null;
}

/**
 * `x-amz-version-id` of a write: its commit. If the write changed nothing, it is the commit that had written what is
 * there, which is looked up only then. Left out if another write has come in between, and in a view of the branch.
 */
export async function versionHeader(
  { address, tree }: { readonly address: BucketAddress; readonly tree: Pick<FileCalls, "read"> },
  { path, content, commit }: Write,
): Promise<Record<string, string>> {
  if (address.view !== undefined) return {};
  if (commit !== null) return { "x-amz-version-id": commit };
  const file = await tree.read({ path });
  const same = file.ok && file.digest === content.digest && file.size === content.size;
  return same ? { "x-amz-version-id": file.commit } : {};
}

/** `x-amz-version-id` of a file that was read. In the bucket of an open commit, a commit or a tag nothing has a version. */
export function readVersionHeader(
  { address }: { readonly address: BucketAddress },
  { commit }: Pick<FileRead, "commit">,
): Record<string, string> {
  return address.view === undefined ? { "x-amz-version-id": commit } : {};
}
