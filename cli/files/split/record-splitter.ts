/** Cuts a stream of bytes, which comes in chunks of any size, into records. Throws a CliError for what it can't cut. */
export interface RecordSplitter {
  /** The records that end in this chunk. */
  push(chunk: Buffer): Buffer[];
  /** The records that end with the stream. */
  end(): Buffer[];
}

/** Largest record: it is held in memory as a whole. */
export const MAX_RECORD_BYTES = 64 * 1024 * 1024;
