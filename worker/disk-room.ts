import { HostDisks } from "../protocol/admin.ts";
import type { ReadyCause } from "../protocol/ready.ts";
import {
  type BlobPage,
  type BlobStore,
  type ByteRange,
  DiskFullError,
  type ListBlobs,
  type PutTogether,
  UnwrittenBlobError,
} from "./blobs/port.ts";
import { inTime } from "./in-time.ts";

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
 * database could not take the deletions that give room. What is taken between two looks at the disks is subtracted from
 * what the last one found: else a crowd would write the reserve full before the next.
 */
export class DiskRoom {
  readonly #askHost: () => Promise<unknown>;
  readonly #now: () => number;
  /** Undefined until the host was asked once. */
  #known: readonly Space[] | undefined;
  /** Bytes of all that was ever admitted, and how many of them were when the look began that is known. */
  #admittedBytes = 0;
  #foundBytes = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(askHost: () => Promise<unknown>, now: () => number) {
    this.#askHost = askHost;
    this.#now = now;
  }

  /**
   * Rejects with a DiskFullError if there is no room for new files. `bytes`: how many are about to be written. Once the host
   * has told, it is asked at most every two seconds; one that can't tell has room.
   */
  async admit(bytes = 0): Promise<void> {
    await this.#look();
    // No other request comes in between the two.
    if (this.#short()) throw new DiskFullError();
    this.#admittedBytes += bytes;
  }

  /**
   * What an object could not be made for: the platform says no more than that something went wrong inside, or that it wrote no blob. If a disk has no room,
   * a DiskFullError, else the error.
   */
  async unmade(error: unknown): Promise<unknown> {
    this.lookAnew();
    await this.#look();
    return isInside(error) && this.#short() ? new DiskFullError() : error;
  }

  /** The disk did not take a file. */
  noteFull(): void {
    this.#failedAt = this.#now();
  }

  /** What was admitted is not there, or not any more: only the host knows what is free then. */
  lookAnew(): void {
    this.#askedAt = Number.NEGATIVE_INFINITY;
  }

  /** What `/readyz` says of it; undefined if there is room. */
  async shortage(): Promise<ReadyCause | undefined> {
    await this.#look();
    const short = this.#short();
    if (short) {
      const room = `${mib(this.#leftOf(short))} are free, and ${mib(reserveOf(short))} are kept for deletions`;
      return {
        check: "disk",
        cause: `The disk of the gateway's data is full (${room}): files are read and deleted, and no new ones are taken.`,
        fix: FIX,
      };
    }
    const failedForMs = this.#now() - this.#failedAt;
    // Below zero: the clock was set back.
    if (failedForMs < 0 || failedForMs >= FAILED_FOR_MS) return undefined;
    const cause = "The disk of the gateway's data had no room for a file that came within the last minute.";
    return { check: "disk", cause, fix: FIX };
  }

  #short(): Space | undefined {
    return this.#known?.find((space) => this.#leftOf(space) < reserveOf(space));
  }

  /** All that was admitted may go to any of the disks. */
  #leftOf({ freeBytes }: Space): number {
    return Math.max(0, freeBytes - (this.#admittedBytes - this.#foundBytes));
  }

  // Others go on with what is known meanwhile: the request that asks may be cut, and what it waits for with it. While nothing
  // is known, each asks for itself.
  async #look(): Promise<void> {
    const now = this.#now();
    if (this.#known && now >= this.#askedAt && now - this.#askedAt < KEPT_MS) return;
    this.#askedAt = now;
    const admittedBytes = this.#admittedBytes;
    const spaces = await this.#spaces();
    // A look that began later knows more.
    if (admittedBytes < this.#foundBytes) return;
    this.#known = spaces;
    this.#foundBytes = admittedBytes;
  }

  async #spaces(): Promise<readonly Space[]> {
    try {
      return HostDisks.parse(await inTime(this.#askHost())).spaces;
    } catch (error) {
      console.warn("the host can't tell how full its disk is", error);
      return [];
    }
  }
}

/** What something failed for, given what the platform says of it. */
type Explain = (error: unknown) => Promise<unknown>;

/** The same store, which takes new blobs only while there is room, and says what it failed for if the host knows more than the platform says. */
export class RoomyStore implements BlobStore {
  readonly manifestBound?: number;
  readonly putsAtOnce?: number;
  readonly readsAhead?: number;
  readonly #store: BlobStore;
  readonly #room: DiskRoom;
  readonly #explain: Explain;

  constructor(
    store: BlobStore,
    room: DiskRoom,
    { explain = async (error) => error }: { readonly explain?: Explain | undefined } = {},
  ) {
    this.#store = store;
    this.#room = room;
    this.#explain = explain;
    if (store.manifestBound !== undefined) this.manifestBound = store.manifestBound;
    if (store.putsAtOnce !== undefined) this.putsAtOnce = store.putsAtOnce;
    if (store.readsAhead !== undefined) this.readsAhead = store.readsAhead;
  }

  admit(bytes?: number): Promise<void> {
    return this.#room.admit(bytes);
  }

  async put(name: string, bytes: Uint8Array, together?: PutTogether): Promise<void> {
    await this.#room.admit(bytes.length);
    try {
      await this.#store.put(name, bytes, together);
    } catch (error) {
      this.#room.lookAnew();
      const told = await this.#explain(error);
      if (told instanceof UnwrittenBlobError && told.isDiskFull) this.#room.noteFull();
      throw told;
    }
  }

  get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    return this.#explained(this.#store.get(name, range));
  }

  async delete(names: readonly string[]): Promise<void> {
    try {
      await this.#explained(this.#store.delete(names));
    } finally {
      this.#room.lookAnew();
    }
  }

  list(request: ListBlobs): Promise<BlobPage> {
    return this.#explained(this.#store.list(request));
  }

  async #explained<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked;
    } catch (error) {
      throw await this.#explain(error);
    }
  }
}

/** How the platform tells of what it keeps to itself, such as that a database could not be begun, and an object of a blob that it could not write. */
function isInside(error: unknown): boolean {
  return error instanceof Error && /^internal error|^blob \S+ could not be written/.test(error.message);
}

function reserveOf({ totalBytes }: Space): number {
  return Math.min(RESERVE_BYTES, totalBytes / 8);
}

function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
