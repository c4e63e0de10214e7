/**
 * When pipes are looked at, and which. The system tells nobody that a program waits for a pipe's other end: one has
 * to try each. A try costs a few microseconds, so thousands of pipes can't be tried all the time; but most commands
 * read one file after the other, so that the next ones in order are worth more tries than the others.
 */

/** Steps from the last one, in each likely order, most likely first. Some commands read backwards. */
const NEAREST = [1, 2, -1];
const NEAR = [...NEAREST, 3, 4, 5, 6, 7, 8, -2];
/** After an opening, tries follow each other without a pause for so long. */
const EAGER_MS = 2;
/** A reader waits for at most this part of the time in which nothing was opened, */
const SHARE_OF_IDLE = 1 / 8;
/** within these limits for one that reads in order, */
const SHORTEST_WAIT_MS = 1;
const LONGEST_WAIT_MS = 25;
/** and this one for any other, if the pipes are few enough. */
const LONGEST_SWEEP_MS = 1000;
/** A try, as measured. */
const TRY_MS = 0.005;
/** What trying them all may take of one core: if the last one was not foreseen, if it was, and in the long run. */
const SEARCH_LOAD = 0.5;
const FORESEEN_LOAD = 0.05;
const IDLE_LOAD = 0.03;
/** Tries in a row: the agent has other things to do. */
const MOST_TRIES = 400;

export interface Situation {
  /** How long nothing was opened or read to its end. */
  readonly idleMs: number;
  readonly pipes: number;
  /** Pipes that are being read. */
  readonly serving: number;
  /** Whether the last one was among those that were expected. */
  readonly foreseen: boolean;
}

export interface Pace {
  /** How long to wait before the next tries; 0: not at all. */
  readonly waitMs: number;
  /** How many of all the pipes to try then, in turn. */
  readonly tries: number;
  /** Which of those near the last one to try as well. */
  readonly near: readonly number[];
}

/** How to go on. */
export function paceOf({ idleMs, pipes, serving, foreseen }: Situation): Pace {
  // Not while one is read: what brings its bytes goes first.
  if (idleMs < EAGER_MS && serving === 0) return { waitMs: 0, tries: 0, near: NEAREST };
  const near = serving === 0 ? NEAR : NEAREST;
  const patience = idleMs * SHARE_OF_IDLE;
  const cost = pipes * TRY_MS;
  const sweepMs = within(patience, {
    min: cost / (foreseen ? FORESEEN_LOAD : SEARCH_LOAD),
    max: Math.max(LONGEST_SWEEP_MS, cost / IDLE_LOAD),
  });
  const longest = Math.min(LONGEST_WAIT_MS, (MOST_TRIES * sweepMs) / pipes);
  const waitMs = within(patience, { min: SHORTEST_WAIT_MS, max: longest });
  return { waitMs, tries: Math.min(pipes, MOST_TRIES, Math.ceil((pipes * waitMs) / sweepMs)), near };
}

function within(value: number, { min, max }: { min: number; max: number }): number {
  return Math.max(min, Math.min(value, max));
}

/** Which pipes to try, by index. */
export class ProbePlan {
  readonly #count: number;
  readonly #orders: readonly (readonly number[])[];
  /** For each order, the place of each pipe in it. */
  readonly #places: readonly ReadonlyMap<number, number>[];
  #last: number | undefined;
  #foreseen = false;
  #cursor = 0;

  constructor(count: number, orders: readonly (readonly number[])[]) {
    this.#count = count;
    this.#orders = orders;
    this.#places = orders.map((order) => new Map(order.map((pipe, place) => [pipe, place])));
  }

  /** Whether the last one was near the one before, in one of the orders. */
  get foreseen(): boolean {
    return this.#foreseen;
  }

  opened(pipe: number): void {
    this.#foreseen = this.next({ tries: 0, near: NEAR }).has(pipe);
    this.#last = pipe;
  }

  /** The pipes that are likely to be opened next, most likely first, then the last one again, then `tries` of all in turn. */
  next({ tries, near }: Pick<Pace, "tries" | "near">): Set<number> {
    const chosen = new Set<number>();
    for (const step of near) {
      for (const [which, order] of this.#orders.entries()) {
        const pipe = this.#stepped(order, { step, places: this.#places[which] });
        if (pipe !== undefined) chosen.add(pipe);
      }
    }
    if (this.#last !== undefined) chosen.add(this.#last);
    for (let left = Math.min(tries, this.#count); left > 0; left -= 1) {
      chosen.add(this.#cursor);
      this.#cursor = (this.#cursor + 1) % this.#count;
    }
    return chosen;
  }

  /** Behind the last one come the first ones: some commands read everything twice. */
  #stepped(
    order: readonly number[],
    { step, places }: { step: number; places: ReadonlyMap<number, number> | undefined },
  ): number | undefined {
    // Before anything was opened, one step leads to the first, and one back to the last.
    if (this.#last === undefined) return order.at(step > 0 ? step - 1 : step);
    const place = places?.get(this.#last);
    if (place === undefined) return undefined;
    return order[(place + step + order.length) % order.length];
  }
}
