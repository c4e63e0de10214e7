import { HostDisks } from "../protocol/admin.ts";
import type { ReadyCause } from "../protocol/ready.ts";
import {
  type BlobPage,
  type BlobStore,
  type ByteRange,
  DiskFullError,
  type ListBlobs,
  UnwrittenBlobError,
} from "./blobs/port.ts";

const MIB = 1024 ** 2;
/** Kept free, so that SQLite can still write down deletions; bytes. Of a small disk it is an eighth. */
const RESERVE_BYTES = 64 * MIB;
/** What the host told counts for so long; milliseconds. */
const KEPT_MS = 2000;
/** A write that found no room counts for so long, since it left room for what is smaller; milliseconds. */
const FAILED_FOR_MS = 60_000;

const FIX =
  "Deleting files alone frees nothing, since history keeps their bytes. 'sluice repo usage' shows what takes most; 'sluice branch keep BRANCH.REPO --commits N' keeps less of a branch's history, and 'sluice file erase s3://BRANCH.REPO/PATH --all-versions' erases a file for good: both give room after two minutes. Or make room on that disk by other means.";

type Space = HostDisks["spaces"][number];

/**
 * What is free on the disks of an embedded gateway. New files are refused while less than a reserve is: without it, the
 * database could not take the deletions that give room.
 */
export class DiskRoom {
  readonly #askHost: () => Promise<unknown>;
  readonly #now: () => number;
  #known: readonly Space[] = [];
  #askedAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(askHost: () => Promise<unknown>, now: () => number) {
    this.#askHost = askHost;
    this.#now = now;
  }

  /** Whether there is room for new files. The host is asked at most every two seconds; one that can't tell has room. */
  async hasRoom(): Promise<boolean> {
    await this.#look();
    return this.#short() === undefined;
  }

  /** Rejects with a DiskFullError if there is no room for new files. */
  async admit(): Promise<void> {
    if (!(await this.hasRoom())) throw new DiskFullError();
  }

  /** The disk did not take a file. */
  noteFull(): void {
    this.#failedAt = this.#now();
  }

  /** What `/readyz` says of it; undefined if there is room. */
  async shortage(): Promise<ReadyCause | undefined> {
    await this.#look();
    const short = this.#short();
    if (short) {
      const { freeBytes } = short;
      const room = `${mib(freeBytes)} are free, and ${mib(reserveOf(short))} are kept for deletions`;
      return {
        check: "disk",
        cause: `The disk of the gateway's data is full (${room}): files are read and deleted, and no new ones are taken.`,
        fix: FIX,
      };
    }
    if (this.#now() - this.#failedAt >= FAILED_FOR_MS) return undefined;
    const cause = "The disk of the gateway's data had no room for a file that came within the last minute.";
    return { check: "disk", cause, fix: FIX };
  }

  #short(): Space | undefined {
    return this.#known.find((space) => space.freeBytes < reserveOf(space));
  }

  // Others go on with what is known meanwhile: the request that asks may be cut, and what it waits for with it.
  async #look(): Promise<void> {
    const now = this.#now();
    if (now >= this.#askedAt && now - this.#askedAt < KEPT_MS) return;
    this.#askedAt = now;
    try {
      this.#known = HostDisks.parse(await this.#askHost()).spaces;
    } catch (error) {
      console.warn("the host can't tell how full its disk is", error);
      this.#known = [];
    }
  }
}

/** The same store, which takes new blobs only while there is room. */
export class RoomyStore implements BlobStore {
  readonly #store: BlobStore;
  readonly #room: DiskRoom;

  constructor(store: BlobStore, room: DiskRoom) {
    this.#store = store;
    this.#room = room;
  }

  admit(): Promise<void> {
    return this.#room.admit();
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    await this.#room.admit();
    try {
      await this.#store.put(name, bytes);
    } catch (error) {
      if (error instanceof UnwrittenBlobError && error.isDiskFull) this.#room.noteFull();
      throw error;
    }
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
}

function reserveOf({ totalBytes }: Space): number {
  return Math.min(RESERVE_BYTES, totalBytes / 8);
}

function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
