import { createWriteStream, type WriteStream } from "node:fs";
import { finished } from "node:stream/promises";
import type { ContentId } from "../../../protocol/content.ts";
import { TreeHash } from "../../../runner/lib/tree-hash.ts";
import { hashBytes } from "../hash-file.ts";

/** Bytes of a piece that stay in memory; what is longer goes to a file. */
const HELD_BYTES = 8 * 1024 * 1024;

/** The bytes of one file that is being put together from records. */
export interface WholePiece {
  /** The bytes, or the file that holds them. */
  readonly source: Buffer | string;
  readonly content: ContentId;
}

/** A file that is being put together from records: in memory while it is small, else on disk. */
export class Piece {
  readonly #spoolFile: string;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #records = 0;
  #spool: { readonly stream: WriteStream; readonly hash: TreeHash } | undefined;

  /** `spoolFile` takes the bytes if they are many. It is made only then. */
  constructor(spoolFile: string) {
    this.#spoolFile = spoolFile;
  }

  get records(): number {
    return this.#records;
  }

  /** Whether `spill` is to be called before more comes. */
  get isFull(): boolean {
    return this.#heldBytes > HELD_BYTES;
  }

  add(record: Buffer): void {
    this.#records++;
    this.#held.push(record);
    this.#heldBytes += record.length;
  }

  /** Brings to disk what is in memory. */
  async spill(): Promise<void> {
    this.#spool ??= { stream: createWriteStream(this.#spoolFile), hash: new TreeHash() };
    const { stream, hash } = this.#spool;
    const bytes = this.#takeHeld();
    hash.update(bytes);
    await new Promise<void>((resolve, reject) => {
      stream.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** To be called once, at the end. */
  async finish(): Promise<WholePiece> {
    if (!this.#spool) {
      const bytes = this.#takeHeld();
      return { source: bytes, content: hashBytes(bytes) };
    }
    await this.spill();
    const { stream, hash } = this.#spool;
    stream.end();
    await finished(stream);
    return { source: this.#spoolFile, content: hash.finish() };
  }

  /** A copy, so that the chunks that the records are parts of can go. */
  #takeHeld(): Buffer {
    const bytes = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    return bytes;
  }
}
