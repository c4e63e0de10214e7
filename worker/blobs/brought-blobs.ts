import { waitUntil } from "cloudflare:workers";
import type { BlobPage, BlobStore, ByteRange, ListBlobs, PutTogether } from "./port.ts";

/** Most names that are remembered: the chunks of some 80 GiB. A larger request that fails leaves the rest behind. */
const MAX_REMEMBERED = 20_000;

/**
 * A request's view of the blob store. It remembers what the request brings, and removes it if the request fails before
 * anything names these blobs. A crash in between leaves them behind.
 */
export class BroughtBlobs implements BlobStore {
  readonly manifestBound?: number;
  readonly putsAtOnce?: number;
  readonly readsAhead?: number;
  readonly #store: BlobStore;
  readonly #underWay = new Set<Promise<void>>();
  #names: string[] = [];
  /** Whether something may stay: what the last call was to name if that failed, what is not remembered or could not be deleted. */
  #isUnsure = false;

  constructor(store: BlobStore) {
    this.#store = store;
    if (store.manifestBound !== undefined) this.manifestBound = store.manifestBound;
    if (store.putsAtOnce !== undefined) this.putsAtOnce = store.putsAtOnce;
    if (store.readsAhead !== undefined) this.readsAhead = store.readsAhead;
  }

  /** Does work that brings blobs to a store. What it brought is removed if it fails. */
  static async during<T>(store: BlobStore, work: (blobs: BroughtBlobs) => Promise<T>): Promise<T> {
    const blobs = new BroughtBlobs(store);
    try {
      return await work(blobs);
    } catch (error) {
      await blobs.discard();
      throw error;
    }
  }

  async admit(bytes?: number): Promise<void> {
    await this.#store.admit?.(bytes);
  }

  async put(name: string, bytes: Uint8Array, together?: PutTogether): Promise<void> {
    if (this.#names.length < MAX_REMEMBERED) this.#names.push(name);
    else this.#isUnsure = true;
    const put = this.#store.put(name, bytes, together);
    this.#underWay.add(put);
    await put.finally(() => this.#underWay.delete(put));
  }

  get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    return this.#store.get(name, range);
  }

  delete(names: readonly string[]): Promise<void> {
    return this.#store.delete(names);
  }

  list(request: ListBlobs): Promise<BlobPage> {
    return this.#store.list(request);
  }

  /** Makes a call that names the blobs. Only a refusal leaves them nameless: a call that fails may have been done. */
  async handOver<A extends { readonly ok: boolean }>(call: () => Promise<A>): Promise<A> {
    const names = this.#names;
    this.#names = [];
    this.#isUnsure = true;
    const answer = await call();
    this.#isUnsure = false;
    if (!answer.ok) this.#names = names;
    return answer;
  }

  /** Best effort; goes on if the client is gone. Returns whether nothing that the request brought can have stayed. */
  async discard(): Promise<boolean> {
    if (this.#names.length > 0) {
      const done = this.#deleteAll();
      waitUntil(done);
      await done;
    }
    return !this.#isUnsure;
  }

  async #deleteAll(): Promise<void> {
    // A chunk that is on its way would arrive after its deletion, and stay.
    await Promise.allSettled(this.#underWay);
    const names = this.#names;
    this.#names = [];
    await this.#store.delete(names).catch((error) => {
      this.#isUnsure = true;
      console.warn(`${names.length} blobs of a request that failed could not be deleted: ${error}`);
    });
  }
}
