import { LEAF_BYTES } from "../../../protocol/digest.ts";
import { type ChecksumAlgorithm, isCrc } from "../../core/checksums.ts";
import { type ByteSource, byteSource } from "../body-reader.ts";
import type { ByteBudget } from "../budget.ts";
import type { Chunk, ChunkedBody } from "../content.ts";
import { decodeLeaves } from "../hash/leaves.ts";
import { type Milestone, ResumableHasher, readMilestone, writeMilestone } from "../hash/resumable-hasher.ts";
import { chunksFrom, MissingBlobError } from "../manifest.ts";
import { type BlobStore, ShortBlobError } from "../port.ts";

/** A text that outlives its writer. */
export interface SavedProgress {
  /** The text that was saved last; null if none was. */
  load(): string | null;
  save(text: string): Promise<void>;
}

/** A list of chunks whose digest is wanted. */
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
 * The digest of a content from the leaf hashes of its chunks. It reads the bytes between them, and all bytes if a checksum
 * over the whole (base64) is wanted. With `progress` it goes on from the last save over the same content; a
 * checksum over the whole that is no CRC starts anew.
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
  /** Bytes are read into this: one leaf, counted against the budget. */
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
    if (this.#buffer === null) {
      await this.#options.budget.take(LEAF_BYTES);
      this.#buffer = new ArrayBuffer(LEAF_BYTES);
    }
    const bytes = await source?.read(new Uint8Array(this.#buffer, 0, length), length);
    if (bytes?.length !== length) throw new ShortBlobError(chunk.blob, chunk);
    // Reading transfers the buffer.
    this.#buffer = bytes.buffer;
    return bytes;
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

  /** A milestone counts only if it is of this very content and has the wanted checksum. */
  #saved(): Milestone | null {
    const text = this.#progress?.load() ?? null;
    const saved = text === null ? null : readMilestone(text, this.#unhashed.seal);
    return saved?.crc?.algorithm === this.#options.checksum ? saved : null;
  }
}

/** The rest of a chunk that is to be hashed. */
interface ChunkReading {
  readonly chunk: Chunk;
  /** The place in the chunk at which that begins. */
  readonly from: number;
  /** Hashes of the chunk's first leaves, also of those before `from`. */
  readonly leaves: readonly Uint8Array[];
  /** From here on, the chunk's bytes have to be read. */
  readonly readFrom: number;
  /** Those bytes; null if there are none. */
  readonly source: ByteSource | null;
}

interface ReadingsOptions {
  readonly body: ChunkedBody;
  /** Bytes of the whole content. */
  readonly size: number;
  /** So many bytes are hashed already. */
  readonly done: number;
  /** Whether known leaves make reading unnecessary, or every byte is wanted. */
  readonly need: "unknown-leaves" | "all-bytes";
}

/** The chunks of a content that are not hashed yet. The blob of each is open if bytes have to be read. */
async function* chunkReadings(
  store: BlobStore,
  { body, size, done, need }: ReadingsOptions,
): AsyncGenerator<ChunkReading> {
  for await (const { start, chunk } of chunksFrom(store, { body, from: done })) {
    const from = Math.max(0, done - start);
    if (from >= chunk.length) continue;
    const leaves = usableLeaves(chunk, start + chunk.length === size);
    const readFrom = need === "all-bytes" ? from : Math.max(from, leaves.length * LEAF_BYTES);
    const source = readFrom < chunk.length ? await openChunk(store, { chunk, readFrom }) : null;
    yield { chunk, from, leaves, readFrom, source };
  }
}

/** The last hash is a leaf of the content only if the chunk ends with a leaf: a whole one, or the content's last. */
function usableLeaves({ leaves, length }: Chunk, endsContent: boolean): Uint8Array[] {
  if (leaves === null) return [];
  const whole = Math.floor(length / LEAF_BYTES);
  return decodeLeaves(leaves).slice(0, endsContent ? undefined : whole);
}

async function openChunk(
  store: BlobStore,
  { chunk, readFrom }: { chunk: Chunk; readFrom: number },
): Promise<ByteSource> {
  const range = { offset: chunk.offset + readFrom, length: chunk.length - readFrom };
  const stream = await store.get(chunk.blob, range);
  if (stream === null) throw new MissingBlobError(chunk.blob);
  return byteSource(stream);
}

/** The same items, each fetched while the one before is used. `discard` gets the one that is not taken in the end. */
async function* ahead<T>(
  items: AsyncGenerator<T>,
  discard: (item: T) => Promise<unknown>,
): AsyncGenerator<T> {
  let next = items.next();
  try {
    for (let step = await next; !step.done; step = await next) {
      next = items.next();
      // The taker of the next item hears of a failure.
      next.catch(() => {});
      yield step.value;
    }
  } finally {
    const unused = await next.catch(() => undefined);
    if (unused && !unused.done) await discard(unused.value);
  }
}
