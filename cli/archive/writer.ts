import { createHash } from "node:crypto";
import type { ContentId } from "../../protocol/content.ts";
import { contentName } from "../../protocol/content.ts";
import { TreeHash } from "../../runner/lib/tree-hash.ts";
import { CliError } from "../output/failure.ts";
import { type ArchiveEnd, CONTENTS, EntriesHash, LAST_ENTRY } from "./format.ts";
import { paddingOf, TAR_END, tarHeader } from "./tar.ts";

/** Takes the bytes of an archive. */
export interface Sink {
  write(bytes: Uint8Array): Promise<void>;
  /** Forgets all bytes after the first so many; absent if what is written is gone, as into a pipe. */
  readonly truncate?: (bytes: number) => Promise<void>;
}

/** How far an archive was written. */
export interface WriterMark {
  readonly offset: number;
  readonly hash: EntriesHash;
}

/** How many contents are remembered as written, at most: 24 bytes each. What is forgotten is written again. */
const REMEMBERED = 2 ** 20;

/** Writes an archive from its first byte to its last, and remembers no more of it than where some contents are. */
export class ArchiveWriter {
  readonly #sink: Sink;
  readonly #time = Date.now() / 1000;
  #hash = new EntriesHash();
  readonly #seen = new SeenContents();
  #offset = 0;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  /** Bytes so far. */
  get size(): number {
    return this.#offset;
  }

  /** Whether it can go back to a mark. */
  get canGoBack(): boolean {
    return this.#sink.truncate !== undefined;
  }

  mark(): WriterMark {
    return { offset: this.#offset, hash: this.#hash.copy() };
  }

  /** What was written after the mark is no part of the archive. */
  async goBack({ offset, hash }: WriterMark): Promise<void> {
    await this.#sink.truncate?.(offset);
    this.#offset = offset;
    this.#hash = hash.copy();
    this.#seen.forgetFrom(offset);
  }

  /** Adds a page. */
  async add(name: string, value: unknown): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
    this.#hash.add(name, bytes);
    await this.#entry(name, bytes);
  }

  /** Where a content was written; undefined: it has to be. */
  offsetOf(content: ContentId): number | undefined {
    return this.#seen.get(contentName(content));
  }

  /** Adds a content, and returns where it begins. Its bytes are checked as they pass. */
  async addContent(
    content: ContentId,
    pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<number> {
    const name = contentName(content);
    await this.#write(tarHeader({ name: `${CONTENTS}${name}`, size: content.size }, this.#time));
    const begins = this.#offset;
    const hash = new TreeHash();
    for await (const piece of pieces) {
      hash.update(piece);
      if (hash.size > content.size) break;
      await this.#write(piece);
    }
    if (contentName(hash.finish()) !== name) {
      throw new CliError(`the gateway gave other bytes than those of the content ${name}`, {
        code: "ContentDamaged",
      });
    }
    await this.#write(Buffer.alloc(paddingOf(content.size)));
    this.#seen.set(name, begins);
    return begins;
  }

  async end(branches: ArchiveEnd["branches"]): Promise<void> {
    const end: ArchiveEnd = { sha256: this.#hash.finish(), branches };
    await this.#entry(LAST_ENTRY, Buffer.from(`${JSON.stringify(end)}\n`));
    await this.#write(TAR_END);
  }

  async #entry(name: string, bytes: Buffer): Promise<void> {
    await this.#write(tarHeader({ name, size: bytes.length }, this.#time));
    await this.#write(bytes);
    await this.#write(Buffer.alloc(paddingOf(bytes.length)));
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    await this.#sink.write(bytes);
    this.#offset += bytes.length;
  }
}

/** Where contents were written, as far as there is room: one content a slot, the last one stays. */
class SeenContents {
  readonly #keys = new BigUint64Array(2 * REMEMBERED);
  readonly #offsets = new Float64Array(REMEMBERED);

  get(name: string): number | undefined {
    const { slot, high, low } = slotOf(name);
    const isThere = this.#keys[2 * slot] === high && this.#keys[2 * slot + 1] === low;
    return isThere ? this.#offsets[slot] : undefined;
  }

  set(name: string, offset: number): void {
    const { slot, high, low } = slotOf(name);
    this.#keys[2 * slot] = high;
    this.#keys[2 * slot + 1] = low;
    this.#offsets[slot] = offset;
  }

  /** What was written at an offset or behind it is there no more. */
  forgetFrom(offset: number): void {
    for (const [slot, at] of this.#offsets.entries()) if (at >= offset) this.#keys[2 * slot] = 0n;
  }
}

function slotOf(name: string): { slot: number; high: bigint; low: bigint } {
  const hash = createHash("sha256").update(name).digest();
  // A slot that nothing was written to has zeros.
  return {
    slot: hash.readUInt32BE(16) % REMEMBERED,
    high: hash.readBigUInt64BE(0) | 1n,
    low: hash.readBigUInt64BE(8),
  };
}
