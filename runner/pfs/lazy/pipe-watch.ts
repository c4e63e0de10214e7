import { closeSync, constants, openSync, renameSync } from "node:fs";
import { errorCode } from "../../lib/fault.ts";
import type { LazyFile, LazyFiles } from "./lazy-file.ts";
import type { PipeStock } from "./pipe-stock.ts";
import { ProbePlan, paceOf } from "./probe-plan.ts";

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
