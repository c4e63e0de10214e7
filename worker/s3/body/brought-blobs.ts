import { waitUntil } from "cloudflare:workers";
import type { BlobStore, ByteRange } from "../../blobs/port.ts";

/** Most names that are remembered: chunks of some 80 GiB. What fails above that leaves blobs to the collector. */
const MAX_REMEMBERED = 20_000;
/** Deletions at a time: as many as the platform lets one request have on their way. */
const PARALLEL = 6;

/**
 * A request's view of the blob store, which remembers what the request brings: where it fails before anything names
 * these blobs, it removes them. A crash in between leaves them to the collector.
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
   * The answer of a call that names the blobs. Only a refusal leaves them nameless for sure: where the call itself
   * fails, it may have been done.
   */
  async handOver<A extends { readonly ok: boolean }>(call: () => Promise<A>): Promise<A> {
    const names = this.#names;
    this.#names = [];
    const answer = await call();
    if (!answer.ok) this.#names = names;
    return answer;
  }

  /** Best effort, also where the client is gone. */
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
