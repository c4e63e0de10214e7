import type { ContentId } from "../../protocol/content.ts";
import { contentName } from "../../protocol/content.ts";
import type { BranchAddress } from "../../protocol/names.ts";

/** Whose blob it is. */
export interface BlobOwner {
  /** Uid of the branch's generation. */
  readonly uid: string;
  /** Id of the upload that writes it: `<branch>.<repo>.<ulid>`. */
  readonly upload: string;
  /**
   * Unique to one write within the upload. An upload may bring the same content twice: the blobs of the second are
   * removed while the first's stay, so that the two must not share a name.
   */
  readonly write: string;
}

/**
 * The name of a chunk's blob: `b/<two hex digits>/<branch uid>/<digest>-<size>.<write>.<upload ulid>`. The digits
 * keep folders small. The upload's id at the end makes sure that no name is ever used again.
 */
export function chunkBlobName(chunk: ContentId, owner: BlobOwner): string {
  return `${folder(chunk, owner)}/${contentName(chunk)}.${owner.write}.${uploadUlid(owner.upload)}`;
}

/** The name of a manifest's blob: as a chunk's, with `.manifest` after `<digest>-<size>`, which name its JSON. */
export function manifestBlobName(manifest: ContentId, owner: BlobOwner): string {
  return `${folder(manifest, owner)}/${contentName(manifest)}.manifest.${owner.write}.${uploadUlid(owner.upload)}`;
}

/** How many bytes of JSON are in a manifest's blob; undefined if the name is a chunk's. */
export function manifestBytes(name: string): number | undefined {
  const [, size] = /-(\d+)\.manifest\.[^/]*$/.exec(name) ?? [];
  return size === undefined ? undefined : Number(size);
}

/** What the name of a chunk's or manifest's blob says. */
export interface NamedBlob {
  /** Uid of the branch's generation. */
  readonly uid: string;
  readonly sizeBytes: number;
  /** What all blobs of one write end in, and no others. */
  readonly write: string;
  /** Last part of the id of the upload. */
  readonly upload: string;
}

const BLOB_NAME =
  /^b\/[0-9a-f]{2}\/([^/]+)\/[0-9a-f]{64}-(\d+)(?:\.manifest)?\.((?:[^./]+\.)?([0-9A-Z]{26}))$/;

/** Reads a blob's name; undefined if it is not one that this file makes. */
export function parseBlobName(name: string): NamedBlob | undefined {
  const [, uid, size, write, upload] = BLOB_NAME.exec(name) ?? [];
  if (uid === undefined || write === undefined || upload === undefined) return undefined;
  return { uid, sizeBytes: Number(size), write, upload };
}

/** The chunk whose blob has a name; undefined if it is a manifest's, or not one that this file makes. */
export function chunkOfBlob(name: string): ContentId | undefined {
  const [, digest, size] =
    /^b\/[0-9a-f]{2}\/[^/]+\/([0-9a-f]{64})-(\d+)\.(?!manifest\.)[^/]+$/.exec(name) ?? [];
  return digest === undefined ? undefined : { digest, size: Number(size) };
}

/** The folder of the markers of branches, one for each whose object was ever made: by them branches are found without the catalogue. */
export const BRANCH_MARKERS = "m/branches/";

/** The marker of a branch, which is there before its object has a row. It stays when the branch is deleted, as the object does. */
export function branchMarker({ repo, branch }: BranchAddress): string {
  return `${BRANCH_MARKERS}${repo}/${branch}`;
}

/** How many folders the blobs of a branch are in, by the first two digits of their digests. */
export const BLOB_FOLDERS = 256;

/** What the names of the blobs in one folder of a branch begin with. */
export function blobFolder(index: number, uid: string): string {
  return `b/${index.toString(16).padStart(2, "0")}/${uid}/`;
}

/** A fresh `write`. */
export function newWrite(): string {
  return crypto.randomUUID().slice(0, 8);
}

function folder({ digest }: ContentId, { uid }: BlobOwner): string {
  return `b/${digest.slice(0, 2)}/${uid}`;
}

/** The last part of an upload's id; the rest only routes requests to its branch. */
function uploadUlid(upload: string): string {
  return upload.slice(upload.lastIndexOf(".") + 1);
}
