/**
 * Contents that say themselves what they must be: a first line with key, nonce and size, repeated to the end. Bytes
 * of two such contents mixed, cut off or filled up are told from a whole one without any record of what was sent.
 */
export function selfDescribing({ key, nonce, size }: Description): Buffer {
  return Buffer.alloc(size, `${key} ${nonce} ${size}\n`);
}

export interface Description {
  readonly key: string;
  readonly nonce: number;
  /** Bytes; more than the first line. */
  readonly size: number;
}

/** What a content says it is; an error where its bytes are not that, or are those of another key. */
export function describeWhole(key: string, bytes: Buffer): Description {
  const line = bytes.subarray(0, bytes.indexOf("\n")).toString();
  const match = /^(\S+) (\d+) (\d+)$/.exec(line);
  if (match?.[1] !== key) throw new Error(`${key} holds the bytes of ${JSON.stringify(line)}`);
  const description = { key, nonce: Number(match[2]), size: Number(match[3]) };
  if (!bytes.equals(selfDescribing(description))) {
    throw new Error(`${key} is not whole: ${bytes.length} bytes that begin with ${JSON.stringify(line)}`);
  }
  return description;
}
