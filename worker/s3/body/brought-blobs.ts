import { waitUntil } from "cloudflare:workers";
import type { BlobStore, ByteRange } from "../../blobs/port.ts";

/** Most names that are remembered: the chunks of some 80 GiB. A larger request that fails leaves blobs to the collector. */
const MAX_REMEMBERED = 20_000;
/** Deletions at a time: the platform lets one request have no more under way. */
const PARALLEL = 6;

/**
 * A request's view of the blob store. It remembers what the request brings, and removes it if the request fails before
 * anything names these blobs. A crash in between leaves them to the collector.
 */
export class BroughtBlobs implements BlobStore {
  readonly manifestBound?: number;
  readonly #store: BlobStore;
  #names: string[] = [];

  constructor(store: BlobStore) {
    this.#store = store;
    if (store.manifestBound !== undefined) this.manifestBound = store.manifestBound;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    if (this.#names.length < MAX_REMEMBERED) this.#names.push(name);
    await this.#store.put(name, bytes);
  }

  get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    return this.#store.get(name, range);
  }

  delete(name: string): Promise<void> {
    return this.#store.delete(name);
  }

  /**
   * Makes a call that names the blobs. Only a refusal leaves them nameless for sure: if the call itself fails, it may
   * have been done all the same.
   */
  async handOver<A extends { readonly ok: boolean }>(call: () => Promise<A>): Promise<A> {
    const names = this.#names;
    this.#names = [];
    const answer = await call();
    if (!answer.ok) this.#names = names;
    return answer;
  }

  /** Best effort; goes on if the client is gone. */
  async discard(): Promise<void> {
    if (this.#names.length === 0) return;
    const done = this.#deleteAll();
    waitUntil(done);
    await done;
  }

  async #deleteAll(): Promise<void> {
    while (this.#names.length > 0) {
      const some = this.#names.splice(-PARALLEL);
      await Promise.allSettled(some.map((name) => this.#store.delete(name)));
    }
  }
}
