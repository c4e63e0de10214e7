import type { ContentId } from "../../protocol/content.ts";
import { contentName } from "../../protocol/content.ts";

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
