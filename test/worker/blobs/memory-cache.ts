import { parseBlobName } from "../../../worker/blobs/blob-name.ts";
import type { BlobCache, BytesFrom } from "../../../worker/blobs/near/near.ts";
import type { BlobReader, ByteRange } from "../../../worker/blobs/port.ts";

/** A cache in front of a store that keeps each blob which is read, until it is purged. */
export class MemoryCache implements BlobCache {
  readonly copies = new Map<string, Uint8Array<ArrayBuffer>>();
  /** What was read through it, in order. */
  readonly gets: string[] = [];
  /** The tags that it was asked to purge, call by call. */
  readonly purges: string[][] = [];
  isAway = false;
  readonly #store: BlobReader;

  constructor(store: BlobReader) {
    this.#store = store;
  }

  async get(name: string, { offset, length }: ByteRange) {
    this.gets.push(name);
    if (this.isAway) throw new Error("the cache is away");
    const from: BytesFrom = this.copies.has(name) ? "cache" : "store";
    const copy = this.copies.get(name) ?? (await this.#fill(name));
    return copy ? { bytes: new Blob([copy.subarray(offset, offset + length)]).stream(), from } : null;
  }

  async #fill(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const bytes = await this.#store.get(name, { offset: 0, length: parseBlobName(name)?.sizeBytes ?? 0 });
    if (!bytes) return undefined;
    const copy = new Uint8Array(await new Response(bytes).arrayBuffer());
    this.copies.set(name, copy);
    return copy;
  }

  async purge(tags: readonly string[]): Promise<void> {
    this.purges.push([...tags]);
    if (this.isAway) throw new Error("the cache is away");
    for (const name of this.copies.keys()) {
      const { uid = "", write = "" } = parseBlobName(name) ?? {};
      if (tags.includes(uid) || tags.includes(write)) this.copies.delete(name);
    }
  }
}
