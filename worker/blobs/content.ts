/** A run of bytes inside one blob. */
export interface Chunk {
  readonly blob: string;
  /** Where in the blob it starts. */
  readonly offset: number;
  readonly length: number;
  /** SHA-256 of each 1 MiB leaf, base64 of 32 bytes each, in order: what a concatenation is re-hashed from. */
  readonly leaves: string;
}

/** Where a content's bytes are: in the row itself, in blobs, or in blobs named by a manifest that got too long for a row. */
export type Body =
  | { readonly kind: "inline"; readonly bytes: Uint8Array }
  | { readonly kind: "chunks"; readonly chunks: readonly Chunk[] }
  | { readonly kind: "manifest"; readonly blob: string; readonly length: number };

/** A content and where its bytes are. */
export interface Content {
  readonly digest: string;
  readonly size: number;
  readonly body: Body;
}
