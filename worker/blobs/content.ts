import type { ContentId } from "../../protocol/content.ts";

/** A run of bytes inside one blob. */
export interface Chunk {
  readonly blob: string;
  /** Where in the blob it starts. */
  readonly offset: number;
  readonly length: number;
  /**
   * SHA-256 of each 1 MiB from the chunk's start on, the last one of what is left, as far as they are known: base64 of
   * 32 bytes each. A concatenation is re-hashed from them. They are leaves of the content, except the last if the chunk
   * ends within a leaf. Null if the chunk does not begin at a leaf of its content.
   */
  readonly leaves: string | null;
}

/** Where a content's bytes are: in the row itself, in blobs, or in blobs that a manifest lists because the list is too long for a row. */
export type Body =
  | { readonly kind: "inline"; readonly bytes: Uint8Array }
  | { readonly kind: "chunks"; readonly chunks: readonly Chunk[] }
  | { readonly kind: "manifest"; readonly blob: string; readonly length: number };

/** A body whose bytes are in blobs. */
export type ChunkedBody = Exclude<Body, { readonly kind: "inline" }>;

/** A content and where its bytes are. */
export interface Content {
  readonly digest: string;
  readonly size: number;
  readonly body: Body;
  /**
   * Contents of the same branch that own the blobs of the body's chunks: they live as long as this one does. Absent: the
   * content owns its blobs itself. The blobs of the manifest are its own in any case.
   */
  readonly keeps?: readonly KeptContent[];
  /** Blobs among the chunks that were made for this content, although `keeps` own the others. Absent: none. */
  readonly made?: readonly string[];
}

/** A content that another one keeps, since that lists its blobs. */
export interface KeptContent extends ContentId {
  /**
   * Which life of the content the list of its blobs was read from. If it went and came again meanwhile, it has other
   * blobs, and the ones that were read are going. Absent: the reader was not told.
   */
  readonly life?: Life | undefined;
}

/** Tells a row of a content from an earlier one of the same content. Null if its blobs can't be others: it has none, or it is as old as the tables. */
export type Life = number | null;
