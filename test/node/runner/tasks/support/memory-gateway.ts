import { Readable } from "node:stream";
import { type ContentId, contentName } from "../../../../../protocol/content.ts";
import type { Gateway } from "../../../../../runner/gateway/gateway.ts";
import { TreeHash } from "../../../../../runner/lib/tree-hash.ts";

const CHUNK_BYTES = 64 * 1024;

/** Of the gateway only what gives contents. It counts how many are being read and how far. */
export class MemoryGateway implements Pick<Gateway, "content"> {
  readonly #contents = new Map<string, Buffer>();
  #open = 0;
  /** Most contents that were being read at a time. */
  peak = 0;
  /** Bytes that were taken. */
  given = 0;
  /** How many contents were asked for. */
  asked = 0;
  /** Told of each piece that is given, before it is. Throwing breaks the content there. */
  onChunk: () => void = () => undefined;

  /** Keeps bytes as a content that tasks may name. */
  store(text: string | Buffer): ContentId {
    const bytes = Buffer.from(text);
    const hash = new TreeHash();
    hash.update(bytes);
    const content = hash.finish();
    this.#contents.set(contentName(content), bytes);
    return content;
  }

  /** Other bytes under the name of a content. */
  damage(content: ContentId, bytes: string): void {
    this.#contents.set(contentName(content), Buffer.from(bytes));
  }

  content({ content }: { content: ContentId }): Promise<Readable> {
    this.asked += 1;
    const bytes = this.#contents.get(contentName(content));
    if (!bytes) return Promise.reject(new Error(`no content ${contentName(content)}`));
    return Promise.resolve(Readable.from(this.#pieces(bytes)));
  }

  async *#pieces(bytes: Buffer): AsyncGenerator<Buffer> {
    this.#open += 1;
    this.peak = Math.max(this.peak, this.#open);
    try {
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
        this.onChunk();
        const piece = bytes.subarray(at, at + CHUNK_BYTES);
        this.given += piece.length;
        yield piece;
      }
    } finally {
      this.#open -= 1;
    }
  }
}
