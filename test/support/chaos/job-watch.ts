import { setTimeout as pause } from "node:timers/promises";
import type { Job } from "../../../protocol/pipelines.ts";
import type { Control } from "../control.ts";
import { isGone } from "../http.ts";

const LOOK_EVERY_MS = 100;

/** Follows the counters of a job, also while its gateway comes and goes. */
export class JobWatch {
  readonly #control: Control;
  readonly #job: string;
  readonly #stop = new AbortController();
  readonly #looking: Promise<void>;
  #last: Job | undefined;
  #waiting: { readonly until: (job: Job) => boolean; readonly wake: () => void }[] = [];

  constructor(control: Control, job: string) {
    this.#control = control;
    this.#job = job;
    this.#looking = this.#look();
  }

  /** Datums that were done when it was last seen. */
  get processed(): number {
    return this.#last?.datums.processed ?? 0;
  }

  /** Resolves when the job has processed so many datums, or has ended, or `close` was called. */
  reached(count: number): Promise<void> {
    const until = ({ datums, finishedAt }: Job): boolean => datums.processed >= count || finishedAt !== null;
    if (this.#stop.signal.aborted || (this.#last && until(this.#last))) return Promise.resolve();
    return new Promise((wake) => this.#waiting.push({ until, wake }));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#looking;
    for (const { wake } of this.#waiting.splice(0)) wake();
  }

  async #look(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        const job = await this.#control.job(this.#job);
        this.#last = job;
        const ready = this.#waiting.filter(({ until }) => until(job));
        this.#waiting = this.#waiting.filter((waiter) => !ready.includes(waiter));
        for (const { wake } of ready) wake();
      } catch (error) {
        if (!isGone(error)) throw error;
      }
      await pause(LOOK_EVERY_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }
}
