/**
 * Where immutable bytes live. Two adapters: R2, and (embedded) workerd's disk service over a folder. One
 * conformance suite holds both to what is said here.
 */
export interface BlobStore {
  /** Writes a blob whole; replaces one of that name. Visible only when complete. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** The bytes [offset, offset + length) of a blob, or null where there is no such blob. */
  get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null>;
  /** Removes a blob; fine where there is none. */
  delete(name: string): Promise<void>;
}

export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}
