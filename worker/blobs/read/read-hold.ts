import type { ChunkedBody } from "../content.ts";
import { manifestPages, pageBlobs } from "../manifest.ts";
import type { BlobReader } from "../port.ts";

/** How often a long read asks that what it has still to read be kept: a few times within the grace that readers have. */
export const HOLD_EVERY_MS = 30_000;

/** The branch that owns blobs, or knows who does. */
interface BlobKeeper {
  keepBlobs(request: {
    blobs: readonly string[];
  }): Promise<{ readonly borrowed: boolean; readonly parents: readonly string[] }>;
}

interface ReadHoldOptions {
  /** The bucket that is read. */
  readonly bucket: string;
  /** The branch behind a bucket; undefined if there can be none. */
  readonly keeper: (bucket: string) => BlobKeeper | undefined;
  /** Does something again and again until the function that it returns is called. Absent: by the clock. */
  readonly every?: Every;
}

type Every = (ms: number, work: () => void) => () => void;

const byTheClock: Every = (ms, work) => {
  const timer = setInterval(work, ms);
  return () => clearInterval(timer);
};

/** A body that is read. */
interface Reading {
  readonly body: ChunkedBody;
  /** The blobs of its list that are not read to their end. Asked each time. */
  readonly unread: () => readonly string[];
}

/**
 * Keeps what a long read has still to read. Blobs whose last name goes are deleted after a grace. A read that lasts longer
 * says so every HOLD_EVERY_MS, and then what it reads stays for another grace. Nothing is asked before that, so that a
 * short read costs no call. If it comes too late, the read finds a blob missing and its reader is cut off.
 */
export class ReadHold {
  readonly #keeper: ReadHoldOptions["keeper"];
  readonly #every: Every;
  /** Grows as branches say that they have blobs from others. */
  readonly #buckets: Set<string>;

  constructor({ bucket, keeper, every = byTheClock }: ReadHoldOptions) {
    this.#keeper = keeper;
    this.#every = every;
    this.#buckets = new Set([bucket]);
  }

  /** Holds until the function that it returns is called. */
  begin(store: BlobReader, reading: Reading): () => void {
    let isAsking = false;
    return this.#every(HOLD_EVERY_MS, () => {
      if (isAsking) return;
      isAsking = true;
      this.#renew(store, reading)
        // There are a few more times within the grace.
        .catch((error) => console.warn(`what is read could not be held and is asked for again: ${error}`))
        .finally(() => {
          isAsking = false;
        });
    });
  }

  /** Holds all of a body while `work` goes on. */
  async during<T>(store: BlobReader, body: ChunkedBody, work: () => Promise<T>): Promise<T> {
    const end = this.begin(store, { body, unread: () => blobsOf(body) });
    try {
      return await work();
    } finally {
      end();
    }
  }

  async #renew(store: BlobReader, { body, unread }: Reading): Promise<void> {
    if (body.kind === "chunks") {
      await this.#keep(unread());
      return;
    }
    // What a manifest lists goes with it, but for what belongs to others.
    if (!(await this.#keep([body.blob]))) return;
    for (const page of (await manifestPages(store, body)) ?? []) {
      await this.#keep((await pageBlobs(store, page)) ?? []);
    }
  }

  /** Returns whether one of them is a manifest that lists blobs of others. */
  async #keep(blobs: readonly string[]): Promise<boolean> {
    if (blobs.length === 0) return false;
    let borrowed = false;
    // A set gives those that are added on the way, too.
    for (const bucket of this.#buckets) {
      const kept = await this.#keeper(bucket)?.keepBlobs({ blobs });
      borrowed ||= kept?.borrowed === true;
      for (const parent of kept?.parents ?? []) this.#buckets.add(parent);
    }
    return borrowed;
  }
}

/** The blobs that a list names; those of a manifest are found through it. */
function blobsOf(body: ChunkedBody): string[] {
  return body.kind === "manifest" ? [body.blob] : [...new Set(body.chunks.map(({ blob }) => blob))];
}
