import type { BlobStore, ByteRange } from "./port.ts";

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
    return object === null ? null : object.body;
  }

  async delete(name: string): Promise<void> {
    await this.#bucket.delete(name);
  }
}
