import type { FileRead } from "../contract/files.ts";

/** What all Branch objects of an isolate, which has 128 MB, keep of recent reads; bytes. */
const ISOLATE_BYTES = 8 * 1024 * 1024;
/** About what an entry takes beside its bytes. */
const ENTRY_BYTES = 1024;

/** A file at HEAD that is inline; `modifiedAt` is of when it was last written, `commit` of the commit that wrote it. */
export type CachedRead = FileRead & { readonly body: { readonly kind: "inline" } };

interface Entry {
  readonly gen: number;
  readonly read: CachedRead;
  readonly bytes: number;
}

/** Entries by key, the one used longest ago first: it is also the first to go. */
class RecentReads {
  readonly #mostBytes: number;
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  get(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  set(key: string, entry: Entry): void {
    this.delete(key);
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#mostBytes) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

const isolateReads = new RecentReads(ISOLATE_BYTES);
let caches = 0;

/**
 * Small files at HEAD that were read lately: a read of the database costs as much as all else of a small GET. An
 * object is the only writer of its branch and has one thread, and each write drops what it changes: nothing here is
 * ever stale. What an instance left behind when it ended is under a name that nobody uses again, and ages out.
 */
export class ReadCache {
  readonly #reads: RecentReads;
  #owner = `${++caches}:`;

  constructor(mostBytes?: number) {
    this.#reads = mostBytes === undefined ? isolateReads : new RecentReads(mostBytes);
  }

  get(gen: number, path: string): CachedRead | undefined {
    const entry = this.#reads.get(this.#owner + path);
    return entry?.gen === gen ? entry.read : undefined;
  }

  /** `bytes`: what is large in it. */
  set(gen: number, { path, read, bytes }: { path: string; read: CachedRead; bytes: number }): void {
    this.#reads.set(this.#owner + path, { gen, read, bytes: ENTRY_BYTES + path.length + bytes });
  }

  drop(path: string): void {
    this.#reads.delete(this.#owner + path);
  }

  /** Drops all by taking another name: what is left behind ages out. */
  dropAll(): void {
    this.#owner = `${++caches}:`;
  }
}
