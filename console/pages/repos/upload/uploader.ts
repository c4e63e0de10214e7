import type { z } from "zod";
import type { SessionEnd, SessionOpened } from "../../../../protocol/files.ts";
import { type Gateway, isAway, pause } from "../../../gateway/gateway.ts";
import { Bucket, type Place } from "../../../gateway/s3.ts";
import { branchPath } from "../../addresses.ts";

/*
 * Files from this machine into a branch, as one commit. They go into an open commit, so that nobody sees some of them; its
 * finish is what makes them seen. Until then everything can be taken back: the open commit is aborted, and what came with it
 * goes. A file that could not be sent keeps the others where they are, and is sent again when somebody asks for it.
 */

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
  readonly fault: string | undefined;
  /** Set once it is done; null: all was there already. */
  readonly commit: string | null | undefined;
}

/** Larger files go in parts of so many bytes, so that little is sent again if a connection breaks. */
const PART_BYTES = 16 * 1024 * 1024;
const MAX_PARTS = 10_000;
/** Requests under way at once. */
const LANES = 4;
/** A request that nothing answered is sent again after each of these pauses. */
const PAUSES_MS = [500, 2000, 5000] as const;

interface Item extends Source {
  readonly partBytes: number;
  /** ETags of the parts that are there, by their numbers. */
  readonly parts: Map<number, string>;
  upload?: string;
  isSent: boolean;
}

/** What an upload needs besides the files. */
export interface UploadOptions {
  readonly place: Place;
  readonly message: string;
}

/** One upload, from its open commit to its end. */
export class Uploader {
  readonly #gateway: Gateway;
  readonly #place: Place;
  readonly #message: string;
  readonly #items: readonly Item[];
  readonly #listeners = new Set<() => void>();
  #stopping = new AbortController();
  #session: z.infer<typeof SessionOpened> | undefined;
  readonly #bytes: number;
  #sentFiles = 0;
  #sentBytes = 0;
  #failed: readonly { readonly path: string; readonly why: string }[] = [];
  #progress: Progress;

  constructor(gateway: Gateway, sources: readonly Source[], { place, message }: UploadOptions) {
    this.#gateway = gateway;
    this.#place = place;
    this.#message = message;
    this.#items = sources.map((source) => ({
      ...source,
      // Whole MiB, and no more parts than there may be.
      partBytes: Math.max(PART_BYTES, Math.ceil(source.file.size / MAX_PARTS / 1048576) * 1048576),
      parts: new Map(),
      isSent: false,
    }));
    this.#bytes = sources.reduce((sum, { file }) => sum + file.size, 0);
    this.#progress = this.#counted("sending");
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
    this.#failed = [];
    this.#tell("sending");
    try {
      this.#session ??= await this.#again(signal, () => this.#begin(signal));
      await this.#sendAll(new Bucket(this.#gateway, this.#session.bucket), signal);
      if (this.#failed.length > 0) return this.#tell("stuck");
      this.#tell("finishing");
      this.#tell("done", { commit: await this.#finish(this.#session.session, signal) });
    } catch (error) {
      if (!signal.aborted) this.#tell("stuck", { fault: wordsOf(error) });
    }
  }

  /** Gives it up: nothing of it stays. */
  async cancel(): Promise<void> {
    const { step } = this.#progress;
    if (step === "done" || step === "cancelled") return;
    this.#stopping.abort();
    const session = this.#session;
    try {
      if (session) await this.#gateway.call(this.#path(session.session), { method: "DELETE" });
      this.#tell("cancelled");
    } catch (error) {
      // It goes by itself in a while, unless it is being made the newest commit.
      this.#tell("cancelled", { fault: wordsOf(error) });
    }
  }

  async #begin(signal: AbortSignal): Promise<z.infer<typeof SessionOpened>> {
    return await this.#gateway.call(`${branchPath(this.#place)}/sessions`, {
      method: "POST",
      json: { ttl: "1h" },
      signal,
    });
  }

  /** A file that is refused leaves the others to go on. */
  async #sendAll(bucket: Bucket, signal: AbortSignal): Promise<void> {
    const left = this.#items.filter(({ isSent }) => !isSent)[Symbol.iterator]();
    const lane = async (): Promise<void> => {
      for (const item of left) {
        if (signal.aborted) return;
        try {
          await this.#send(item, bucket, signal);
          item.isSent = true;
          this.#sentFiles++;
        } catch (error) {
          if (signal.aborted) return;
          this.#failed = [...this.#failed, { path: item.path, why: wordsOf(error) }];
        }
        this.#tell("sending");
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    signal.throwIfAborted();
  }

  async #send(item: Item, bucket: Bucket, signal: AbortSignal): Promise<void> {
    const { path: key, file: body } = item;
    if (body.size <= item.partBytes) {
      await this.#again(signal, () => bucket.put(key, { body, signal }));
      this.#sentBytes += body.size;
    } else {
      await this.#sendParts(item, bucket, signal);
    }
  }

  /** Parts that are there from an earlier try are not sent again. */
  async #sendParts(item: Item, bucket: Bucket, signal: AbortSignal): Promise<void> {
    const { path: key, file, partBytes, parts } = item;
    item.upload ??= await this.#again(signal, () => bucket.beginParts(key, { body: file, signal }));
    const uploadId = item.upload;
    const numbers = Array.from({ length: Math.ceil(file.size / partBytes) }, (_, index) => index + 1);
    const left = numbers.filter((number) => !parts.has(number))[Symbol.iterator]();
    let isBroken = false;
    const lane = async (): Promise<void> => {
      for (const number of left) {
        if (isBroken) return;
        const body = file.slice((number - 1) * partBytes, number * partBytes);
        const part = { body, signal, uploadId, partNumber: number };
        const etag = await this.#again(signal, () => bucket.putPart(key, part)).catch((error: unknown) => {
          isBroken = true;
          throw error;
        });
        parts.set(number, etag);
        this.#sentBytes += body.size;
        this.#tell("sending");
      }
    };
    const lanes = await Promise.allSettled(Array.from({ length: LANES }, lane));
    for (const end of lanes) if (end.status === "rejected") throw end.reason;
    const etags = numbers.map((number) => parts.get(number) ?? "");
    await this.#again(signal, () => bucket.completeParts(key, { uploadId, etags, signal }));
  }

  async #finish(session: string, signal: AbortSignal): Promise<string | null> {
    const said = this.#message === "" ? {} : { message: this.#message };
    for (;;) {
      // Asked again, it says how it ended.
      const end = await this.#again(signal, () =>
        this.#gateway.call<SessionEnd>(`${this.#path(session)}/finish`, {
          method: "POST",
          json: said,
          signal,
        }),
      );
      if (end.state === "finished") return end.commit;
    }
  }

  #path(session: string): string {
    return `${branchPath(this.#place)}/sessions/${session}`;
  }

  /** Does it once more, some times, if nothing answered or something that can't for the moment. */
  async #again<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
    for (const ms of PAUSES_MS) {
      try {
        return await act();
      } catch (error) {
        if (signal.aborted || !isAway(error)) throw error;
      }
      await pause(ms, signal);
    }
    return await act();
  }

  #tell(step: Progress["step"], more: Partial<Progress> = {}): void {
    // What is still under way when it was cancelled says nothing any more.
    if (this.#progress.step === "cancelled") return;
    this.#progress = { ...this.#counted(step), ...more };
    for (const listener of this.#listeners) listener();
  }

  #counted(step: Progress["step"]): Progress {
    return {
      step,
      files: this.#items.length,
      sentFiles: this.#sentFiles,
      bytes: this.#bytes,
      sentBytes: this.#sentBytes,
      failed: this.#failed,
      fault: undefined,
      commit: undefined,
    };
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
