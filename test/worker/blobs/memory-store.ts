import type { BlobPage, BlobStore, ByteRange, ListBlobs } from "../../../worker/blobs/port.ts";

/** A blob store that is quick, and tells what was asked of it. */
export class MemoryStore implements BlobStore {
  readonly blobs = new Map<string, Uint8Array<ArrayBuffer>>();
  /** Every range of bytes that was asked for, in order. */
  gets: { readonly name: string; readonly range: ByteRange }[] = [];
  /** How many more gets are answered before they fail. */
  getsUntilFailure = Number.POSITIVE_INFINITY;

  /** How many bytes of chunks were asked for; manifests do not count. */
  get chunkBytesRead(): number {
    const chunks = this.gets.filter(({ name }) => !name.includes(".manifest."));
    return chunks.reduce((sum, { range }) => sum + range.length, 0);
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    this.blobs.set(name, new Uint8Array(bytes));
  }

  async get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    this.gets.push({ name, range });
    if (this.gets.length > this.getsUntilFailure) throw new Error("the store is down");
    const blob = this.blobs.get(name);
    if (!blob) return null;
    return new Blob([blob.subarray(range.offset, range.offset + range.length)]).stream();
  }

  async delete(names: readonly string[]): Promise<void> {
    for (const name of names) this.blobs.delete(name);
  }

  async list({ prefix, after = "", limit }: ListBlobs): Promise<BlobPage> {
    const all = [...this.blobs.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
    const names = all.slice(0, limit);
    return { names, next: all.length > limit ? (names.at(-1) ?? null) : null };
  }
}
