import { parseBlobName } from "../blob-name.ts";
import type { BlobReader, BlobStore, ByteRange } from "../port.ts";

/** Where bytes of a blob came from. */
export type BytesFrom = "cache" | "store";

interface NearBlob {
  readonly bytes: ReadableStream<Uint8Array>;
  readonly from: BytesFrom;
}

/**
 * Copies of blobs in the data centers of their readers. What a name means never changes, so that no copy is ever old; but it
 * may outlive its blob. So only reads of files go by it, after the branch has named the blob: whoever proves that a blob is
 * there, or takes its bytes elsewhere, asks the store.
 */
export interface BlobCache {
  /** As of a store; what no copy is near of is taken from the store, and a copy stays. Rejects if the cache is of no use. */
  get(name: string, range: ByteRange): Promise<NearBlob | null>;
}

/** Reads blobs through a cache, and without it if that fails. */
export class NearReads implements BlobReader {
  readonly isUncounted = true;
  readonly readsAhead: number;
  readonly #store: BlobStore;
  readonly #cache: BlobCache;
  readonly #told: (from: BytesFrom) => void;

  /** `told`: hears of each blob where it comes from. */
  constructor(store: BlobStore, cache: BlobCache, told: (from: BytesFrom) => void) {
    this.readsAhead = store.readsAhead ?? 1;
    this.#store = store;
    this.#cache = cache;
    this.#told = told;
  }

  async get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    const near = await this.#cache.get(name, range).catch((error: unknown) => {
      console.warn(`blob ${name} is read without the cache: ${error}`);
      return null;
    });
    this.#told(near?.from ?? "store");
    // Only the store says that a blob is not there.
    return near ? near.bytes : await this.#store.get(name, range);
  }
}

/** The cache that Cloudflare keeps in front of the entrypoint `Blobs` (entrypoint.ts). */
export class EntrypointCache implements BlobCache {
  readonly #entrypoint: () => Pick<Fetcher, "fetch">;

  constructor(entrypoint: () => Pick<Fetcher, "fetch">) {
    this.#entrypoint = entrypoint;
  }

  async get(name: string, { offset, length }: ByteRange): Promise<NearBlob | null> {
    const isWhole = offset === 0 && length === parseBlobName(name)?.sizeBytes;
    const headers = isWhole ? {} : { range: `bytes=${offset}-${offset + length - 1}` };
    const { status, body, headers: said } = await this.#entrypoint().fetch(addressOf(name), { headers });
    const bytes = said.get("content-length") ?? String(length);
    if (status !== (isWhole ? 200 : 206) || body === null || bytes !== String(length)) {
      await body?.cancel();
      if (status === 404) return null;
      throw new Error(`the cache answered ${status} with ${bytes} bytes`);
    }
    return { bytes: body, from: said.get("cf-cache-status") === "HIT" ? "cache" : "store" };
  }
}

/** The host part is a filler: the cache goes by the path alone. */
function addressOf(name: string): string {
  return `http://blobs/${name}`;
}

/** The blob that a request is for. */
export function nameIn(url: string): string {
  return new URL(url).pathname.slice(1);
}
