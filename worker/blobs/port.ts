/**
 * Where immutable bytes live. Two adapters: R2, and (embedded) workerd's disk service over a folder. One
 * conformance suite holds both to what is said here.
 */
export interface BlobStore {
  /** Bytes of JSON from which a list of chunks goes to a blob instead of a row. Absent: the usual bound. */
  readonly manifestBound?: number;
  /** Writes a blob whole; replaces one of that name. Visible only when complete. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /**
   * The bytes [offset, offset + length) of a blob, at least one; null if there is no such blob. Rejects if the blob is too
   * short for that.
   */
  get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null>;
  /** Removes a blob. Does nothing if there is none. */
  delete(name: string): Promise<void>;
}

export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/** A blob is shorter than its references say: the store lost bytes. */
export class ShortBlobError extends Error {
  constructor(name: string, { offset, length }: ByteRange) {
    super(`blob ${name} does not have the bytes ${offset}-${offset + length - 1}`);
    this.name = "ShortBlobError";
  }
}
