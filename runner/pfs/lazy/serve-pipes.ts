import { closeSync, constants, openSync, renameSync, writeSync } from "node:fs";
import { opendir } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Cache } from "../../cache/cache.ts";
import type { ContentSource } from "../../gateway/gateway.ts";
import { errorCode, messageOf } from "../../lib/fault.ts";
import type { PipeStock } from "./pipe-stock.ts";
import { ProbePlan, paceOf } from "./probe-plan.ts";

/** A file of a lazy input: a named pipe that its content goes through when somebody opens it. */
export interface LazyFile {
  /** The path of the pipe on this machine. */
  readonly pipe: string;
  /** The path of the file in its repo. */
  readonly path: string;
  readonly source: ContentSource;
}

/** The lazy files of a datum. */
export interface LazyFiles {
  readonly files: readonly LazyFile[];
  /** Orders in which a command is likely to open them, as indexes: those of the paths, and of the folders' listings. */
  readonly orders: readonly (readonly number[])[];
}

/** The lazy files below the folder that becomes `/pfs`, which are laid out. */
export async function lazyFiles(pfs: string, files: readonly LazyFile[]): Promise<LazyFiles> {
  const inPathOrder = files.map((_, index) => index);
  if (files.length < 2) return { files, orders: [inPathOrder] };
  const indexes = new Map(files.map(({ pipe }, index) => [pipe, index]));
  const listed: number[] = [];
  for await (const path of walk(pfs)) {
    const index = indexes.get(path);
    if (index !== undefined) listed.push(index);
  }
  return { files, orders: [inPathOrder, listed] };
}

/** Everything but folders, in the order in which a program sees it that lists as it goes. */
async function* walk(folder: string): AsyncGenerator<string> {
  for await (const entry of await opendir(folder, { bufferSize: 256 })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else yield path;
  }
}

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

export interface WatchOptions {
  readonly lazy: LazyFiles;
  readonly pipes: PipeStock;
  /**
   * A reader has opened the pipe. The descriptor writes to it, does not block, and is the callee's to close. Resolves
   * when the reader has all that it gets; undefined if it has that already.
   */
  readonly onOpen: (file: LazyFile, descriptor: number) => Promise<void> | undefined;
  /** The watch can't go on: a program that opens a pipe from now on would wait for ever. */
  readonly onFault: (error: unknown) => void;
}

/**
 * Notices when pipes are opened, without a thread or a descriptor for any of them: opening one to write without
 * blocking succeeds as soon as a reader is there.
 *
 * The reader's pipe is then replaced by a fresh one before a byte is written, so that the next reader gets the file
 * from its start, and none takes bytes from another.
 */
export class PipeWatch {
  readonly #options: WatchOptions;
  readonly #plan: ProbePlan;
  #activeAt = performance.now();
  #serving = 0;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #ended = false;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#plan = new ProbePlan(options.lazy.files.length, options.lazy.orders);
    this.#schedule();
  }

  close(): void {
    this.#ended = true;
    this.#cancel();
  }

  #cancel(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#timer = undefined;
    this.#immediate = undefined;
  }

  #schedule(): void {
    const pace = paceOf({
      idleMs: performance.now() - this.#activeAt,
      pipes: this.#options.lazy.files.length,
      serving: this.#serving,
      foreseen: this.#plan.foreseen,
    });
    const round = () => void this.#round(this.#plan.next(pace));
    if (pace.waitMs === 0) this.#immediate = setImmediate(round);
    else this.#timer = setTimeout(round, pace.waitMs);
  }

  async #round(pipes: Iterable<number>): Promise<void> {
    this.#cancel();
    try {
      for (const index of pipes) {
        const descriptor = openForReader(this.#file(index).pipe);
        if (descriptor === undefined) continue;
        await this.#handOver(index, descriptor);
        // The plan now has likelier ones than the rest of this round.
        break;
      }
    } catch (error) {
      this.close();
      this.#options.onFault(error);
    }
    if (!this.#ended) this.#schedule();
  }

  async #handOver(index: number, descriptor: number): Promise<void> {
    const { pipes, onOpen } = this.#options;
    const file = this.#file(index);
    try {
      const fresh = pipes.take() ?? (await pipes.get());
      if (this.#ended) return closeSync(descriptor);
      renameSync(fresh, file.pipe);
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
    this.#plan.opened(index);
    const served = onOpen(file, descriptor);
    this.#activeAt = performance.now();
    if (!served) return;
    this.#serving += 1;
    void served.finally(() => this.#served());
  }

  /** A reader that has got all may well open the next file at once. */
  #served(): void {
    this.#serving -= 1;
    this.#activeAt = performance.now();
    // Without a timer a round is under way, which schedules the next one.
    if (this.#timer === undefined || this.#ended) return;
    this.#cancel();
    this.#schedule();
  }

  #file(index: number): LazyFile {
    return this.#options.lazy.files[index] as LazyFile;
  }
}

/** Opens a pipe to write; undefined if nobody reads it. */
function openForReader(pipe: string): number | undefined {
  // Mostly it fails, and half of the cost would be the stack of an error that nobody sees.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (errorCode(error) === "ENXIO") return undefined;
    throw error;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
