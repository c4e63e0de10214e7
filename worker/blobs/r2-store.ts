import { type BlobStore, type ByteRange, ShortBlobError } from "./port.ts";

/** Blobs as objects in an R2 bucket. */
export class R2BlobStore implements BlobStore {
  readonly #bucket: R2Bucket;

  constructor(bucket: R2Bucket) {
    this.#bucket = bucket;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    await this.#bucket.put(name, bytes);
  }

  async get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    const object = await this.#bucket.get(name, { range });
    if (object === null) return null;
    if (object.size < range.offset + range.length) {
      await object.body.cancel();
      throw new ShortBlobError(name, range);
    }
    return object.body;
  }

  async delete(name: string): Promise<void> {
    await this.#bucket.delete(name);
  }
}
