import { LEAF_BYTES } from "../../../protocol/digest.ts";
import { type ChecksumAlgorithm, isCrc } from "../../core/checksums.ts";
import type { ByteBudget } from "../budget.ts";
import type { ChunkedBody } from "../content.ts";
import { readMilestone, writeMilestone } from "../hash/milestone-text.ts";
import { type Milestone, ResumableHasher } from "../hash/resumable-hasher.ts";
import { type BlobStore, ShortBlobError } from "../port.ts";
import { ahead } from "./ahead.ts";
import { type ChunkReading, chunkReadings } from "./chunk-readings.ts";

/** A text that outlives its writer. */
export interface SavedProgress {
  /** What was saved last; null where nothing was. */
  load(): string | null;
  save(text: string): Promise<void>;
}

/** A list of chunks whose digest is asked for. */
export interface Unhashed {
  readonly body: ChunkedBody;
  /** Bytes. */
  readonly size: number;
  /** Tells it from every other. */
  readonly seal: string;
}

export interface RehashOptions {
  readonly store: BlobStore;
  readonly checksum: ChecksumAlgorithm | undefined;
  readonly progress: SavedProgress | undefined;
  /** How many bytes may be read between two saves. */
  readonly saveEvery: number;
  readonly budget: ByteBudget;
}

/**
 * The digest of a content from the leaf hashes that its chunks have; of the bytes between them, and of all bytes
 * where a checksum over the whole (base64) is wanted, by reading them. With `progress` it goes on where the last one
 * over the same content stopped; a SHA over the whole starts anew.
 */
export async function rehash(
  unhashed: Unhashed,
  options: RehashOptions,
): Promise<{ readonly digest: string; readonly checksum: string | null }> {
  return await new RehashRun(unhashed, options).run();
}

class RehashRun {
  readonly #unhashed: Unhashed;
  readonly #options: RehashOptions;
  readonly #progress: SavedProgress | undefined;
  readonly #hasher: ResumableHasher;
  /** What bytes are read into; one leaf, counted against the budget. */
  #buffer: ArrayBuffer | null = null;
  #unsaved = 0;

  constructor(unhashed: Unhashed, options: RehashOptions) {
    const { checksum, progress } = options;
    this.#unhashed = unhashed;
    this.#options = options;
    this.#progress = checksum === undefined || isCrc(checksum) ? progress : undefined;
    this.#hasher = new ResumableHasher({ checksum, from: this.#saved() });
  }

  async run(): Promise<{ digest: string; checksum: string | null }> {
    const { store, checksum } = this.#options;
    const readings = chunkReadings(store, {
      ...this.#unhashed,
      done: this.#hasher.done,
      need: checksum === undefined ? "unknown-leaves" : "all-bytes",
    });
    try {
      for await (const reading of ahead(readings, async ({ source }) => source?.cancel())) {
        await this.#hashChunk(reading);
        if (this.#options.budget.contended) this.#dropBuffer();
      }
      return this.#hasher.finish();
    } finally {
      this.#dropBuffer();
    }
  }

  async #hashChunk(reading: ChunkReading): Promise<void> {
    const { chunk, from, leaves, readFrom, source } = reading;
    try {
      for (let at = from; at < chunk.length; ) {
        const length = Math.min(this.#hasher.leafRest, chunk.length - at);
        const leaf = leaves[at / LEAF_BYTES];
        if (leaf && at < readFrom) this.#hasher.addLeaf(leaf, length);
        else this.#hasher.addBytes(await this.#read(reading, length), leaf);
        at += length;
        if (at > readFrom) await this.#saveSometimes(length);
      }
    } finally {
      await source?.cancel().catch(() => {});
    }
  }

  async #read({ source, chunk }: ChunkReading, length: number): Promise<Uint8Array> {
    const buffer = this.#buffer ?? (await this.#takeBuffer());
    const bytes = await source?.read(new Uint8Array(buffer, 0, length), length);
    if (bytes?.length !== length) throw new ShortBlobError(chunk.blob, chunk);
    // Reading transfers the buffer.
    this.#buffer = bytes.buffer;
    return bytes;
  }

  async #takeBuffer(): Promise<ArrayBuffer> {
    await this.#options.budget.take(LEAF_BYTES);
    this.#buffer = new ArrayBuffer(LEAF_BYTES);
    return this.#buffer;
  }

  #dropBuffer(): void {
    if (this.#buffer === null) return;
    this.#buffer = null;
    this.#options.budget.give(LEAF_BYTES);
  }

  async #saveSometimes(read: number): Promise<void> {
    this.#unsaved += read;
    const due = this.#unsaved >= this.#options.saveEvery && this.#hasher.done % LEAF_BYTES === 0;
    if (!this.#progress || !due) return;
    this.#unsaved = 0;
    await this.#progress.save(writeMilestone(this.#hasher.milestone(), this.#unhashed.seal));
  }

  /** Only a milestone of this very content, and with the checksum that is wanted, is worth anything. */
  #saved(): Milestone | null {
    const text = this.#progress?.load() ?? null;
    const saved = text === null ? null : readMilestone(text, this.#unhashed.seal);
    return saved?.crc?.algorithm === this.#options.checksum ? saved : null;
  }
}
