import { listening } from "../lib/concurrency.ts";

/** The right to run a command on this node, held for as long as a worker works on what one call leased. */
export interface RunPermit {
  /** To be called once nothing is left to run; once more does nothing. */
  release(): void;
}

/**
 * The permits of a node: so many commands run at once, whatever workers there are. If permits are short, the next one goes
 * to the pipeline that has the fewest, and of several such to the one that has waited longest. So a pipeline of 400
 * workers does not starve one with a single worker. A command that runs keeps its permit until it ends.
 */
export class RunPermits {
  readonly #max: number;
  #taken = 0;
  #workers = 0;
  /** By pipeline: how many permits it has. */
  readonly #held = new Map<string, number>();
  /** By pipeline what gives one to each that waits; the pipeline first that got a permit longest ago. */
  readonly #waiting = new Map<string, (() => void)[]>();
  /** By pipeline: how often a worker with a permit was told that nothing is queued. */
  readonly #misses = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a worker until what this returns is called. */
  enter(): () => void {
    this.#workers += 1;
    return () => {
      this.#workers -= 1;
    };
  }

  /** Whether every worker has a permit: then none has to wait for one. */
  get suffice(): boolean {
    return this.#workers <= this.#max;
  }

  /** A permit for a worker of this pipeline, if one is free and nobody waits for it. */
  tryTake(pipeline: string): RunPermit | undefined {
    return this.#taken < this.#max ? this.#give(pipeline) : undefined;
  }

  /** A permit, as soon as it is the pipeline's turn; undefined if `signal` is aborted before. */
  async take(pipeline: string, signal: AbortSignal): Promise<RunPermit | undefined> {
    if (signal.aborted) return undefined;
    const permit = this.tryTake(pipeline);
    if (permit) return permit;
    const { promise, resolve } = Promise.withResolvers<RunPermit | undefined>();
    const waiter = () => resolve(this.#give(pipeline));
    const waiters = this.#waiting.get(pipeline) ?? [];
    this.#waiting.set(pipeline, [...waiters, waiter]);
    const onAbort = () => {
      this.#forget(pipeline, waiter);
      resolve(undefined);
    };
    return await listening({ signal, onAbort }, () => promise);
  }

  /** A worker with a permit was told that nothing is queued for this pipeline. */
  missed(pipeline: string): void {
    this.#misses.set(pipeline, this.misses(pipeline) + 1);
  }

  /** Grows with each miss: what was seen to be queued before the last one is somebody else's by now. */
  misses(pipeline: string): number {
    return this.#misses.get(pipeline) ?? 0;
  }

  #give(pipeline: string): RunPermit {
    this.#taken += 1;
    this.#held.set(pipeline, this.#heldBy(pipeline) + 1);
    let held = true;
    return {
      release: () => {
        if (!held) return;
        held = false;
        this.#free(pipeline);
      },
    };
  }

  #free(pipeline: string): void {
    this.#taken -= 1;
    const left = this.#heldBy(pipeline) - 1;
    if (left > 0) this.#held.set(pipeline, left);
    else this.#held.delete(pipeline);
    const next = this.#next();
    const first = next === undefined ? undefined : this.#waiting.get(next)?.[0];
    if (next === undefined || first === undefined) return;
    this.#forget(next, first);
    // Behind the others, for its other workers.
    const others = this.#waiting.get(next);
    if (others && this.#waiting.delete(next)) this.#waiting.set(next, others);
    first();
  }

  /** The pipeline whose turn it is. */
  #next(): string | undefined {
    let next: string | undefined;
    for (const pipeline of this.#waiting.keys()) {
      if (next === undefined || this.#heldBy(pipeline) < this.#heldBy(next)) next = pipeline;
    }
    return next;
  }

  #forget(pipeline: string, waiter: () => void): void {
    const others = (this.#waiting.get(pipeline) ?? []).filter((each) => each !== waiter);
    if (others.length > 0) this.#waiting.set(pipeline, others);
    else this.#waiting.delete(pipeline);
  }

  #heldBy(pipeline: string): number {
    return this.#held.get(pipeline) ?? 0;
  }
}
