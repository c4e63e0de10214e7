import { type HostFlush, HostFlushed } from "../../protocol/admin.ts";
import { type Env, openHost } from "../env.ts";
import { manifestBytes } from "./blob-name.ts";
import { deleteManifest, MissingBlobError } from "./manifest.ts";
import {
  type BlobPage,
  type BlobStore,
  type ByteRange,
  DiskFullError,
  deleteEach,
  type ListBlobs,
  NoHandlesError,
  NotDeletedError,
  type PutTogether,
  type Removed,
  ShortBlobError,
  type UnwantedBlob,
  UnwrittenBlobError,
} from "./port.ts";

/** What of the environment a blob store is made of. */
type StoreEnv = Pick<Env, "DISK" | "BLOBS"> &
  Partial<Pick<Env, "HOST" | "SLUICE_HOST_TOKEN" | "SLUICE_SYNC">>;

/** The blob store that the host bound: DISK (embedded) before BLOBS (R2). Throws if there is neither. */
export function openBlobStore(env: StoreEnv): BlobStore {
  if (env.DISK) return new DiskBlobStore(env.DISK, flushOf(env));
  if (env.BLOBS) return new R2BlobStore(env.BLOBS);
  throw new Error("no blob store: bind an R2 bucket as BLOBS, or a writable disk service as DISK");
}

/** Deletes blobs of the store that the host bound, as far as one call should. */
export async function removeUnwanted(env: StoreEnv, unwanted: readonly UnwantedBlob[]): Promise<Removed> {
  return await removeBlobs(openBlobStore(env), unwanted);
}

/** Most names that one call to R2 deletes. */
const R2_DELETED_AT_ONCE = 1000;
/** Most names that one call to R2 lists. */
const R2_LISTED_AT_ONCE = 1000;
/** A put takes long there and costs little here. Two more calls of a request can be under way beside these. */
const R2_PUTS_AT_ONCE = 4;
/** The first byte of a get takes long there. One more is being read, and one call of the request can be under way beside these. */
const R2_READS_AHEAD = 4;
/** Calls to the disk service at a time: the platform lets one request have no more under way. */
const DISK_DELETED_AT_ONCE = 6;

/** Blobs as objects in an R2 bucket. */
export class R2BlobStore implements BlobStore {
  readonly putsAtOnce = R2_PUTS_AT_ONCE;
  readonly readsAhead = R2_READS_AHEAD;
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

  async delete(names: readonly string[]): Promise<void> {
    const failed = new FailedDeletions();
    for (let from = 0; from < names.length; from += R2_DELETED_AT_ONCE) {
      const some = names.slice(from, from + R2_DELETED_AT_ONCE);
      await this.#bucket.delete(some).catch((error) => failed.add(some, error));
    }
    failed.raise();
  }

  async list({ prefix, after, limit }: ListBlobs): Promise<BlobPage> {
    const asked = { prefix, limit: Math.min(limit, R2_LISTED_AT_ONCE) };
    let page = await this.#bucket.list({ ...asked, ...(after !== undefined && { startAfter: after }) });
    // A page may be short, and even empty, although there are more.
    while (page.truncated && page.objects.length === 0) {
      page = await this.#bucket.list({ ...asked, cursor: page.cursor });
    }
    const names = page.objects.map(({ key }) => key);
    return { names, next: page.truncated ? (names.at(-1) ?? null) : null };
  }
}

/**
 * Blobs as files in a folder that workerd's disk service serves. It writes a temporary file and renames it, so a
 * blob appears whole or not at all; it makes parent folders; it does not flush, so that somebody else must. It refuses
 * path segments that start with a dot, and it holds each folder it lists in memory.
 */
export class DiskBlobStore implements BlobStore {
  readonly #disk: Fetcher;
  readonly #flush: Flush | undefined;

  /** Without `flush` a killed process loses nothing, and a power cut may. */
  constructor(disk: Fetcher, flush?: Flush) {
    this.#disk = disk;
    this.#flush = flush;
  }

  async put(name: string, bytes: Uint8Array, together?: PutTogether): Promise<void> {
    const response = await this.#disk.fetch(address(name), { method: "PUT", body: bytes }).catch((error) => {
      throw new UnwrittenBlobError(name, error);
    });
    if (!response.ok) throw new UnwrittenBlobError(name, await failure("write", { name, response }));
    together?.onTaken();
    const flush = this.#flush;
    if (!flush) return;
    const finish = (names: readonly string[]) => flush({ written: [...names], removed: [] });
    await (together ? together.finish(name, finish) : finish([name])).catch((error) => {
      throw new UnwrittenBlobError(name, error);
    });
  }

  async get(name: string, { offset, length }: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    const headers = { range: `bytes=${offset}-${offset + length - 1}` };
    const response = await this.#disk.fetch(address(name), { headers });
    if (response.status === 404) return null;
    // The file ends where the range begins, or before.
    if (response.status === 416) {
      await response.body?.cancel();
      throw new ShortBlobError(name, { offset, length });
    }
    if (!response.ok || response.body === null) throw new Error(await failure("read", { name, response }));
    if (response.headers.get("content-length") !== String(length)) {
      await response.body.cancel();
      throw new ShortBlobError(name, { offset, length });
    }
    return response.body;
  }

  async delete(names: readonly string[]): Promise<void> {
    const failed = new FailedDeletions();
    for (let from = 0; from < names.length; from += DISK_DELETED_AT_ONCE) {
      const some = names.slice(from, from + DISK_DELETED_AT_ONCE);
      await Promise.all(
        some.map((name) => this.#deleteOne(name).catch((error) => failed.add([name], error))),
      );
    }
    // One that is not there may have been removed by a call that did not come so far.
    const removed = failed.others(names);
    if (removed.length > 0) {
      await this.#flush?.({ written: [], removed }).catch((error) => failed.add(removed, error));
    }
    failed.raise();
  }

  async list({ prefix, after = "", limit }: ListBlobs): Promise<BlobPage> {
    const names: string[] = [];
    for await (const name of this.#namesBelow(prefix, after)) {
      if (names.length >= limit) return { names, next: names.at(-1) ?? null };
      names.push(name);
    }
    return { names, next: null };
  }

  /** `folder` ends in a slash. Folders that end before `after` are not looked at. */
  async *#namesBelow(folder: string, after: string): AsyncGenerator<string> {
    for (const name of await this.#entries(folder)) {
      if (!name.endsWith("/")) {
        if (name > after) yield name;
      } else if (name > after || after.startsWith(name)) yield* this.#namesBelow(name, after);
    }
  }

  /** What is in a folder, by whole names in the order of their bytes; folders end in a slash. */
  async #entries(folder: string): Promise<string[]> {
    const response = await this.#disk.fetch(address(folder.slice(0, -1)));
    if (response.status === 404) return [];
    if (!response.ok) throw new Error(await failure("list", { name: folder, response }));
    // The service's own temporary files are not among them.
    const entries = await response.json<{ readonly name: string; readonly type: string }[]>();
    return entries.map(({ name, type }) => `${folder}${name}${type === "directory" ? "/" : ""}`).sort();
  }

  async #deleteOne(name: string): Promise<void> {
    const response = await this.#disk.fetch(address(name), { method: "DELETE" });
    if (!response.ok && response.status !== 404) throw new Error(await failure("delete", { name, response }));
  }
}

/** What one call could not delete. */
class FailedDeletions {
  readonly #names: string[] = [];
  #cause: unknown;

  add(names: readonly string[], cause: unknown): void {
    if (this.#names.length === 0) this.#cause = cause;
    this.#names.push(...names);
  }

  /** Those of some names that are not among them. */
  others(names: readonly string[]): string[] {
    const failed = new Set(this.#names);
    return names.filter((name) => !failed.has(name));
  }

  /** Throws if there are any. */
  raise(): void {
    if (this.#names.length > 0) throw new NotDeletedError(this.#names, this.#cause);
  }
}

/** Makes what became of blobs outlast a power cut. */
type Flush = (blobs: HostFlush) => Promise<void>;

/** The host does it, unless it has none or was told not to. */
function flushOf({ SLUICE_SYNC, ...env }: StoreEnv): Flush | undefined {
  const askHost = SLUICE_SYNC === "off" ? undefined : openHost(env);
  return (
    askHost &&
    (async (blobs) => {
      const { failure } = HostFlushed.parse(await askHost({ path: "/flush", body: blobs }));
      if (failure) throw new UnflushedError(failure.message, { overloaded: failure.isFull });
    })
  );
}

/** `overloaded` is what the platform calls a full disk. */
class UnflushedError extends Error {
  readonly overloaded: boolean;

  constructor(message: string, { overloaded }: { overloaded: boolean }) {
    super(message);
    this.overloaded = overloaded;
  }
}

/** The host part is a filler: the service looks at the path alone. */
function address(name: string): string {
  return `http://disk/${name.split("/").map(encodeURIComponent).join("/")}`;
}

async function failure(
  verb: string,
  { name, response }: { name: string; response: Response },
): Promise<string> {
  return `the disk service could not ${verb} blob ${name}: ${response.status} ${await response.text()}`;
}

/** What the stores can do to a request: lack bytes that a name has, take no more of them, have no room on their disk, or find no file handle. */
export type StoreFault = "bytes-lost" | "store-takes-nothing" | "disk-full" | "no-handles";

/** How SQLite says that it could not write, in the error of an object that the platform reset for it. */
const SQLITE_FULL = /\bSQLITE_FULL\b/;

/** The fault of the stores that an error tells of; undefined if it is another error. */
export function storeFault(error: unknown): StoreFault | undefined {
  if (error instanceof MissingBlobError || error instanceof ShortBlobError) return "bytes-lost";
  if (error instanceof Error && SQLITE_FULL.test(error.message)) return "disk-full";
  if (error instanceof DiskFullError) return "disk-full";
  if (error instanceof NoHandlesError) return "no-handles";
  if (!(error instanceof UnwrittenBlobError)) return undefined;
  return error.isDiskFull ? "disk-full" : "store-takes-nothing";
}

/** `sluice rm` is named because it is what one tries first. */
const DISK_FULL_WORDS =
  "The gateway's disk is full, and nothing was written. 'sluice rm' alone frees nothing, since history keeps the bytes: let a branch keep less of it ('sluice branch keep BRANCH --commits N') or erase files for good ('sluice file erase --all-versions'), which gives room after two minutes; 'sluice repo usage' shows what takes most. If that is refused, too, make some room on the disk by other means first.";

export const STORE_WORDS: Record<StoreFault, string> = {
  "bytes-lost":
    "Bytes of it are missing from the blob store: 'sluice fsck' names every file that has lost some.",
  "store-takes-nothing":
    "The blob store takes no bytes, and nothing was written: look at the gateway's log; then try again.",
  "disk-full": DISK_FULL_WORDS,
  "no-handles":
    "The gateway has, or just had, no file handles left for more connections and files: try again in a moment. If it lasts, raise the limit that the gateway is started with ('ulimit -n', LimitNOFILE= of a systemd unit, --ulimit nofile= of a container).",
};

/** Most pages of manifests that one call deletes with their chunks: some 250 calls to R2. */
const PAGES = 50;

/**
 * Deletes blobs that nobody wants any more, and with a manifest what it lists. Of many or large manifests, some are left
 * for another call. A blob that can't be deleted, or a manifest that can't be read, holds back itself alone.
 */
export async function removeBlobs(store: BlobStore, unwanted: readonly UnwantedBlob[]): Promise<Removed> {
  const chunks = unwanted.map(({ blob }) => blob).filter((blob) => manifestBytes(blob) === undefined);
  const { gone, held } = await deleteEach(store, chunks);
  let pages = PAGES;
  for (const { blob, borrowed } of unwanted) {
    const length = manifestBytes(blob);
    if (length === undefined) continue;
    // Each that fails counts as a page: otherwise a store that is away would be asked for all of them.
    if (pages <= 0) break;
    try {
      const owner = borrowed ? "borrowed" : "own";
      const deleted = await deleteManifest(store, { blob, length, chunks: owner, mostPages: pages });
      pages -= deleted.pages;
      if (!deleted.done) break;
      gone.push(blob);
    } catch (error) {
      pages--;
      held.push({ blobs: [blob], error });
    }
  }
  return { gone, held };
}
