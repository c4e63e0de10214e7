import { Recent } from "../../core/recent.ts";
import type { Refused } from "../contract/answers.ts";
import type { FileList, FileRead, ListFiles, ReadFile, VersionList, VersionMark } from "../contract/files.ts";
import type { ModifiedOf } from "../contract/settings.ts";

/** What all Branch objects of an isolate, which has 128 MB, keep of recent reads; bytes. */
const ISOLATE_BYTES = 8 * 1024 * 1024;
/** The same of an isolate whose entry reads what the objects keep: a process of its own. */
const SHARED_BYTES = 64 * 1024 * 1024;
/** Objects that share what they read, at most: the one that began first gives way, and shares again once it restarts. */
const MAX_SHARING = 10_000;
/** About what an entry takes beside its bytes. */
const ENTRY_BYTES = 1024;
/** What an entry may take beside that: a list of so many chunks is read anew each time. */
const MOST_BYTES = 64 * 1024;
/** About what an entry of a page takes beside its path, and what a page may take: a thousand paths of a usual length. */
const LISTED_BYTES = 256;
const MOST_PAGE_BYTES = 512 * 1024;

/** What is at a path at HEAD; null: nothing. `modifiedAt` is of when it was last written, `commit` of the commit that wrote it. */
type HeadRead = FileRead | null;
/** A file at HEAD that is inline. */
export type CachedRead = FileRead & { readonly body: { readonly kind: "inline" } };

/** What an answer of HEAD says beside the row of its path. */
export interface BranchRecord {
  readonly gen: number;
  /** Time of the newest commit. */
  readonly modifiedAt: number;
  /** Whose time Last-Modified is; null: what the gateway is set to. */
  readonly modified: ModifiedOf | null;
  readonly isPublic: boolean;
}

/** Pages of listings of the newest state, by what they are of. */
export interface Pages {
  readonly files: FileList;
  readonly versions: VersionList;
}

/** Which page. */
export interface Listing<Of extends keyof Pages = keyof Pages>
  extends Pick<ListFiles, "prefix" | "delimiter" | "limit" | "modified" | "publicOnly"> {
  readonly of: Of;
  readonly after?: string | VersionMark;
}

interface Entry {
  readonly gen: number;
  readonly bytes: number;
  /** Of a path. */
  readonly read?: HeadRead;
  /** Of a listing; undefined: it was asked for once. */
  readonly page?: Pages[keyof Pages] | undefined;
  /** In which epoch of its owner it was last answered; undefined: it is not shared. */
  epoch?: number;
}

const isolateReads = new Recent<Entry>(ISOLATE_BYTES);
/** By buckets, the newest instance of each branch that shares what it reads. */
const sharing = new Map<string, ReadCache>();
let caches = 0;

/**
 * Files at HEAD that were read lately: a read of the database costs as much as all else of a small GET. An object is the
 * only writer of its branch and has one thread, and each write drops what it changes: nothing here is ever stale. What
 * an instance left behind when it ended is under a name that nobody uses again, and ages out. The object itself goes by
 * small files alone.
 *
 * In the embedded gateway the entry runs in the isolate of the objects and answers out of it (`sharedReads`), which costs less
 * than half of a call. Then it is also about what a call would wait for:
 *
 *  - A row says when its file was written, but Last-Modified is the time of the newest commit: a commit to one path changes
 *    the answers of all. So an answer is made of two things, a row and the branch's record, and both must be there.
 *  - The object alone shares, in the turn in which it reads, and only if all that it wrote is on the disk: a crash would take
 *    back what was read, and an answer from here waits for no disk.
 *  - Each transaction withdraws the record, and each row that it changes. One that does not say that it changes rows alone
 *    (`Transactions.run`) withdraws all rows: to forget one is slow, and never wrong. The next read shares them again.
 *  - A page of a listing is of no single path: each transaction withdraws all pages. One is kept when it is asked for again
 *    before the next: a walk through a bucket takes no room from others, and listings between writes cost what they did.
 *  - An instance takes the place of those before it when it begins, before it does anything. What it has not read itself is
 *    not found.
 */
export class ReadCache {
  readonly #reads: Recent<Entry>;
  #owner = `${++caches}:`;
  #bucket: string | undefined;
  #record: BranchRecord | undefined;
  /** Rows that were shared in an earlier one are withdrawn. */
  #epoch = 0;
  /** The same of pages: each transaction begins another one. */
  #pageEpoch = 0;
  readonly #instance = crypto.randomUUID();
  #changes = 0;

  constructor(mostBytes?: number) {
    this.#reads = mostBytes === undefined ? isolateReads : new Recent<Entry>(mostBytes);
  }

  /** What the object itself goes by. */
  get(gen: number, path: string): CachedRead | undefined {
    const entry = this.#reads.get(this.#owner + path);
    return entry?.gen === gen && isSmall(entry.read) ? entry.read : undefined;
  }

  /** Keeps what was read, as far as anybody goes by it. `bytes`: what is large in it. */
  set(gen: number, { path, read, bytes }: { path: string; read: HeadRead; bytes: number }): void {
    const isOfUse = isSmall(read) || (this.isShared && bytes <= MOST_BYTES);
    if (isOfUse) this.#reads.set(this.#owner + path, { gen, read, bytes: ENTRY_BYTES + path.length + bytes });
    else this.drop(path);
  }

  drop(path: string): void {
    this.#reads.delete(this.#owner + path);
  }

  /** Drops all by taking another name: what is left behind ages out. */
  dropAll(): void {
    this.#owner = `${++caches}:`;
  }

  /** From now on the entry finds under this bucket what this object shares, and nothing that another one shared. */
  share(bucket: string): void {
    this.#bucket = bucket;
    this.#reads.mostBytes = Math.max(this.#reads.mostBytes, SHARED_BYTES);
    sharing.delete(bucket);
    sharing.set(bucket, this);
    for (const longest of sharing.keys()) {
      if (sharing.size <= MAX_SHARING) return;
      sharing.delete(longest);
    }
  }

  /** Whether the entry looks here. */
  get isShared(): boolean {
    return this.#bucket !== undefined && sharing.get(this.#bucket) === this;
  }

  /** What the object answers in this turn of a path, if it is kept, is true until it is withdrawn. */
  publish(record: BranchRecord, path: string): void {
    if (!this.isShared) return;
    this.#record = record;
    const entry = this.#reads.get(this.#owner + path);
    if (entry) entry.epoch = this.#epoch;
  }

  /** The same of a listing of the newest state. */
  publishPage<Of extends keyof Pages>(record: BranchRecord, listing: Listing<Of>, page: Pages[Of]): void {
    if (!this.isShared) return;
    this.#record = record;
    const key = this.#keyOf(listing);
    const epoch = this.#pageEpoch;
    const pageBytes = this.#reads.get(key)?.epoch === epoch ? bytesOf(page) : 0;
    const isKept = pageBytes > 0 && pageBytes <= MOST_PAGE_BYTES;
    const bytes = ENTRY_BYTES + key.length + (isKept ? pageBytes : 0);
    this.#reads.set(key, { gen: record.gen, page: isKept ? page : undefined, bytes, epoch });
  }

  /** Something was written that is not on the disk yet. What it changed of rows was dropped, if it was `paths` alone. */
  withdraw(changes: "paths" | "anything"): void {
    this.#record = undefined;
    this.#pageEpoch++;
    if (changes === "anything") {
      this.#epoch++;
      this.rowChanged();
    }
  }

  /**
   * Another one since anything changed that a row shows, but by a commit that bore the row. It is of this instance of the object
   * alone: what an instance before it answered is never taken for the same.
   */
  get counter(): string {
    return `${this.#instance}.${this.#changes}`;
  }

  /** A row changed, and no commit says so. */
  rowChanged(): void {
    this.#changes++;
  }

  /** What the object would answer of HEAD; undefined: it must be asked. */
  find({ path, modified, publicOnly }: NewestRead): NewestAnswer | undefined {
    const record = this.#recordFor(publicOnly);
    if (!record) return undefined;
    const entry = this.#reads.get(this.#owner + path);
    if (entry?.epoch !== this.#epoch || entry.gen !== record.gen) return undefined;
    return newestAnswer(record, entry.read, modified);
  }

  /** The same of a listing. */
  findPage<Of extends keyof Pages>(listing: Listing<Of>): Pages[Of] | undefined {
    const entry = this.#recordFor(listing.publicOnly) && this.#reads.get(this.#keyOf(listing));
    // What the key names is what was kept under it.
    return entry?.epoch === this.#pageEpoch ? (entry.page as Pages[Of] | undefined) : undefined;
  }

  /** The record, if it lets somebody read: everybody who may, or with `publicOnly` everybody. */
  #recordFor(publicOnly = false): BranchRecord | undefined {
    const record = this.#record;
    return publicOnly && !record?.isPublic ? undefined : record;
  }

  /** Paths hold no control characters: this is none. */
  #keyOf({ of, prefix, delimiter, after, limit, modified }: Listing): string {
    return `${this.#owner}\0${JSON.stringify([of, prefix, delimiter, after, limit, modified])}`;
  }
}

/** A read of HEAD. */
export type NewestRead = Pick<ReadFile, "path" | "modified" | "publicOnly">;
type NewestAnswer = FileRead | Refused<"no-such-file">;

/** What of a branch's newest state is answered out of memory; undefined: its object must be asked. */
export interface SharedReads {
  read(request: NewestRead): NewestAnswer | undefined;
  page<Of extends keyof Pages>(listing: Listing<Of>): Pages[Of] | undefined;
}

/** What the branch's object shares in this isolate, by each question anew. */
export function sharedReads(bucket: string): SharedReads {
  return {
    read: (request) => sharing.get(bucket)?.find(request),
    page: (listing) => sharing.get(bucket)?.findPage(listing),
  };
}

/** The answer of a read of HEAD, out of the row of its path and what the branch says beside. */
export function newestAnswer(
  record: BranchRecord,
  read: HeadRead | undefined,
  modified: ModifiedOf = "branch",
): NewestAnswer {
  if (!read) return { ok: false, reason: "no-such-file" };
  return (record.modified ?? modified) === "file" ? read : { ...read, modifiedAt: record.modifiedAt };
}

function bytesOf({ entries }: { readonly entries: readonly { readonly path: string }[] }): number {
  return entries.reduce((bytes, { path }) => bytes + LISTED_BYTES + path.length, LISTED_BYTES);
}

function isSmall(read: HeadRead | undefined): read is CachedRead {
  return read?.body.kind === "inline";
}
