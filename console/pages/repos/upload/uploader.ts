import pRetry from "p-retry";
import type { z } from "zod";
import type { SessionEnd, SessionOpened } from "../../../../protocol/files.ts";
import { type Gateway, isAway } from "../../../gateway/gateway.ts";
import { Bucket, type Place } from "../../../gateway/s3.ts";
import { branchPath } from "../../addresses.ts";

/*
 * Files from this machine into a branch, as one commit. They go into an open commit, so that nobody sees some of them; its
 * finish is what makes them seen. Until then everything can be taken back: the open commit is aborted, and what came with it
 * goes. A file that could not be sent keeps the others where they are, and is sent again when somebody asks for it.
 */

type Opened = z.infer<typeof SessionOpened>;

/** A file with the path that it is to have. */
export interface Source {
  readonly path: string;
  readonly file: File;
}

/** How an upload stands. */
export interface Progress {
  readonly step: "sending" | "stuck" | "finishing" | "done" | "cancelled";
  readonly files: number;
  readonly sentFiles: number;
  readonly bytes: number;
  readonly sentBytes: number;
  /** Files that could not be sent, each with the reason. */
  readonly failed: readonly { readonly path: string; readonly why: string }[];
  /** Why the whole did not begin, or did not become a commit. */
  readonly fault?: string | undefined;
  /** Set once it is done; null: all was there already. */
  readonly commit?: string | null;
}

/** Larger files go in parts of so many bytes, so that little is sent again if a connection breaks. */
const PART_BYTES = 16 * 1024 * 1024;
const MAX_PARTS = 10_000;
/** Requests under way at once. */
const LANES = 4;
/** A request that nothing answered is sent again after 500, 2000 and 5000 ms. */
const AGAIN = { retries: 3, minTimeout: 500, factor: 4, maxTimeout: 5000 } as const;

interface Item extends Source {
  readonly partBytes: number;
  /** ETags of the parts that are there, by their numbers. */
  readonly parts: Map<number, string>;
  upload?: string;
  isSent: boolean;
}

/** One upload, from its open commit to its end. */
export class Uploader {
  readonly #gateway: Gateway;
  readonly #path: string;
  readonly #message: string;
  readonly #items: readonly Item[];
  readonly #listeners = new Set<() => void>();
  #stopping = new AbortController();
  #session: Opened | undefined;
  #progress: Progress;

  constructor(gateway: Gateway, sources: readonly Source[], options: { place: Place; message: string }) {
    this.#gateway = gateway;
    this.#path = `${branchPath(options.place)}/sessions`;
    this.#message = options.message;
    this.#items = sources.map((source) => ({
      ...source,
      // Whole MiB, and no more parts than there may be.
      partBytes: Math.max(PART_BYTES, Math.ceil(source.file.size / MAX_PARTS / 1048576) * 1048576),
      parts: new Map(),
      isSent: false,
    }));
    const bytes = sources.reduce((sum, { file }) => sum + file.size, 0);
    const files = sources.length;
    this.#progress = { step: "sending", files, bytes, sentFiles: 0, sentBytes: 0, failed: [] };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly progress = (): Progress => this.#progress;

  /** Sends what has not been sent, and makes the commit once all is there. */
  async run(): Promise<void> {
    this.#stopping = new AbortController();
    const { signal } = this.#stopping;
    this.#tell({ step: "sending", failed: [], fault: undefined });
    try {
      const opening = { method: "POST", json: { ttl: "1h" }, signal } as const;
      this.#session ??= await this.#again(signal, () => this.#gateway.call<Opened>(this.#path, opening));
      const { bucket, session } = this.#session;
      await this.#sendAll(new Bucket(this.#gateway, bucket), signal);
      if (this.#progress.failed.length > 0) return this.#tell({ step: "stuck" });
      this.#tell({ step: "finishing" });
      this.#tell({ commit: await this.#finish(session, signal), step: "done" });
    } catch (error) {
      if (!signal.aborted) this.#tell({ step: "stuck", fault: wordsOf(error) });
    }
  }

  /** Gives it up: nothing of it stays. */
  async cancel(): Promise<void> {
    const { step } = this.#progress;
    if (step === "done" || step === "cancelled") return;
    this.#stopping.abort();
    const session = this.#session?.session;
    let fault: string | undefined;
    try {
      if (session) await this.#gateway.call(`${this.#path}/${session}`, { method: "DELETE" });
    } catch (error) {
      // It goes by itself in a while, unless it is being made the newest commit.
      fault = wordsOf(error);
    }
    this.#tell({ step: "cancelled", fault });
  }

  /** A file that is refused leaves the others to go on. */
  async #sendAll(bucket: Bucket, signal: AbortSignal): Promise<void> {
    const left = this.#items.filter(({ isSent }) => !isSent);
    await inLanes(left, async (item) => {
      try {
        await this.#send(item, bucket, signal);
        item.isSent = true;
        this.#tell({ sentFiles: this.#progress.sentFiles + 1 });
      } catch (error) {
        signal.throwIfAborted();
        const failed = { path: item.path, why: wordsOf(error) };
        this.#tell({ failed: [...this.#progress.failed, failed] });
      }
    });
    signal.throwIfAborted();
  }

  /** A large one in parts. Those that are there from an earlier try are not sent again. */
  async #send(item: Item, bucket: Bucket, signal: AbortSignal): Promise<void> {
    const { path: key, file, partBytes, parts } = item;
    if (file.size <= partBytes) {
      await this.#again(signal, () => bucket.put(key, { body: file, signal }));
      this.#sent(file);
      return;
    }
    item.upload ??= await this.#again(signal, () => bucket.beginParts(key, { body: file, signal }));
    const uploadId = item.upload;
    const numbers = Array.from({ length: Math.ceil(file.size / partBytes) }, (_, index) => index + 1);
    const left = numbers.filter((number) => !parts.has(number));
    await inLanes(left, async (number) => {
      const body = file.slice((number - 1) * partBytes, number * partBytes);
      const part = { body, signal, uploadId, partNumber: number };
      const etag = await this.#again(signal, () => bucket.putPart(key, part));
      parts.set(number, etag);
      this.#sent(body);
    });
    const etags = numbers.map((number) => parts.get(number) ?? "");
    await this.#again(signal, () => bucket.completeParts(key, { uploadId, etags, signal }));
  }

  async #finish(session: string, signal: AbortSignal): Promise<string | null> {
    const json = this.#message === "" ? {} : { message: this.#message };
    const ask = { method: "POST", json, signal } as const;
    for (;;) {
      // Asked again, it says how it ended.
      const end = await this.#again(signal, () =>
        this.#gateway.call<SessionEnd>(`${this.#path}/${session}/finish`, ask),
      );
      if (end.state === "finished") return end.commit;
    }
  }

  /** Does it once more, some times, if nothing answered or something that can't for the moment. */
  #again<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
    return pRetry(act, { ...AGAIN, signal, shouldRetry: ({ error }) => isAway(error) });
  }

  #sent({ size }: Blob): void {
    this.#tell({ sentBytes: this.#progress.sentBytes + size });
  }

  #tell(news: Partial<Progress>): void {
    // What is still under way when it was cancelled says nothing any more.
    if (this.#progress.step === "cancelled") return;
    this.#progress = { ...this.#progress, ...news };
    for (const listener of this.#listeners) listener();
  }
}

/** Does something with each, with several at once, until one of them fails; then all that has begun ends first. */
async function inLanes<T>(all: readonly T[], act: (each: T) => Promise<void>): Promise<void> {
  const left = all[Symbol.iterator]();
  let isBroken = false;
  const lane = async (): Promise<void> => {
    for (const each of left) {
      if (isBroken) return;
      await act(each).catch((error: unknown) => {
        isBroken = true;
        throw error;
      });
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: LANES }, lane));
  for (const end of lanes) if (end.status === "rejected") throw end.reason;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
