import { closeSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import type { Cache } from "../../cache/cache.ts";
import { errorCode, messageOf } from "../../lib/fault.ts";
import type { LazyFile, LazyFiles } from "./lazy-file.ts";
import type { PipeStock } from "./pipe-stock.ts";
import { PipeWatch } from "./pipe-watch.ts";

export interface ServeOptions {
  readonly lazy: LazyFiles;
  readonly cache: Pick<Cache, "readSmall" | "read">;
  readonly pipes: PipeStock;
}

/**
 * Serves a datum's lazy files from the start of its command to its end: a file is fetched when it is opened, and costs
 * nothing until then. A reader may stop before the end, and open a file again.
 */
export class PipeService {
  readonly #options: ServeOptions;
  readonly #stop = new AbortController();
  readonly #failed = new AbortController();
  readonly #streams = new Set<Promise<void>>();
  readonly #watch: PipeWatch | undefined;
  #fault: string | undefined;

  constructor(options: ServeOptions) {
    this.#options = options;
    const { lazy, pipes } = options;
    if (lazy.files.length === 0) return;
    this.#watch = new PipeWatch({
      lazy,
      pipes,
      onOpen: (file, descriptor) => this.#serve(file, descriptor),
      onFault: (error) => this.#fail(`the lazy inputs can't be served any more: ${messageOf(error)}`),
    });
  }

  /** Aborted when a file can't be served: whatever the command makes of the end that it sees, its datum has failed. */
  get failed(): AbortSignal {
    return this.#failed.signal;
  }

  /** Ends it when nobody reads any more. Returns why the datum has failed, if it has. */
  async close(): Promise<string | undefined> {
    this.#watch?.close();
    this.#stop.abort();
    await Promise.all(this.#streams);
    return this.#fault;
  }

  #serve(file: LazyFile, descriptor: number): Promise<void> | undefined {
    const small = this.#options.cache.readSmall(file.source.content);
    const rest = small && writtenAtOnce(descriptor, small);
    if (rest?.length === 0) {
      closeSync(descriptor);
      return undefined;
    }
    const stream = this.#stream(rest ? [rest] : this.#bytesOf(file), descriptor);
    this.#streams.add(stream);
    return stream.finally(() => this.#streams.delete(stream));
  }

  /** Never fails: a failed fetch is recorded by `#bytesOf`, and otherwise it only ends early because the reader has stopped. */
  async #stream(bytes: Iterable<Buffer> | AsyncIterable<Buffer>, descriptor: number): Promise<void> {
    const reader = new Socket({ fd: descriptor, readable: false, writable: true });
    await pipeline(bytes, reader, { signal: this.#stop.signal }).catch(() => undefined);
  }

  /** Records a fault before the reader sees the end. */
  async *#bytesOf({ path, source }: LazyFile): AsyncGenerator<Buffer> {
    const { signal } = this.#stop;
    try {
      yield* this.#options.cache.read(source, signal);
    } catch (error) {
      if (!signal.aborted) this.#fail(`input file "${path}" could not be fetched: ${messageOf(error)}`);
      throw error;
    }
  }

  #fail(reason: string): void {
    this.#fault ??= reason;
    this.#failed.abort();
  }
}

/**
 * Writes what an empty pipe takes without waiting, which is all of it as a rule, since it is little. Returns the rest.
 */
function writtenAtOnce(descriptor: number, bytes: Buffer): Buffer {
  try {
    return bytes.subarray(bytes.length === 0 ? 0 : writeSync(descriptor, bytes));
  } catch (error) {
    // Any other error: the reader has stopped already, and wants nothing more.
    return errorCode(error) === "EAGAIN" ? bytes : bytes.subarray(bytes.length);
  }
}
