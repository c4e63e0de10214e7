import { AsyncLocalStorage } from "node:async_hooks";
import { Random } from "./random.ts";

/** Who does something: an instance of an object, or a client. What one does that has ended has no effect. */
export interface Actor {
  readonly world: World;
  readonly isAlive: boolean;
  /** Resolves when all that it wrote is durable: nothing that it says leaves before (the platform's output gate). */
  flushed(): Promise<void>;
}

interface Event {
  readonly at: number;
  /** Of two at one time, the one with the lower rank is first: chosen by the seed. */
  readonly rank: number;
  readonly run: () => void;
}

// Taken now: simulated code has a clock of its own.
const setImmediateOfNode = setImmediate;
/** Of so many turns of Node's it looks for nothing else between them, such as sockets, which takes longer than most turns. */
const TURNS = 32;

/**
 * Works until that says false. Microtasks of a turn end before the next one: so a turn of an object is never cut in two, as on
 * workerd. `count`: how many turns there were.
 */
function inTurns(work: (count: number) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    let count = 0;
    let isOver = false;
    let left = 0;
    const turn = () => {
      left--;
      if (isOver) return;
      try {
        isOver = !work(count++);
        if (isOver) resolve();
      } catch (error) {
        isOver = true;
        reject(error);
      }
      if (!isOver && left === 0) ask();
    };
    const ask = () => {
      for (left = 0; left < TURNS; left++) setImmediateOfNode(turn);
    };
    // What was called from outside goes on first.
    ask();
  });
}

const contexts = new AsyncLocalStorage<Actor>();

/** Whose code runs now; undefined: nobody's of a simulation. */
export function actorNow(): Actor | undefined {
  return contexts.getStore();
}

/** Runs something as an actor, with all that follows from it. */
export function runAs<T>(actor: Actor, work: () => T): T {
  return contexts.run(actor, work);
}

/** Leaves the context of whoever runs now: the platform itself goes on. */
export function runAsPlatform<T>(work: () => T): T {
  return contexts.exit(work);
}

/**
 * A world of its own: time that stands still until the next thing happens, and things that happen one after the other. Which
 * is next is said by the seed alone, so that a seed is a history.
 */
export class World {
  readonly random: Random;
  /** Time itself, which nobody sets; milliseconds since 1970, with fractions. */
  now: number;
  /** By how much the clock of all is ahead of it, and since when; milliseconds. */
  readonly #clocks: { readonly since: number; readonly aheadMs: number }[];
  #setBackMs = 0;
  #timesSet = 0;
  /** What is called by the names of the Worker's entrypoints. */
  readonly entrypoints: Record<string, unknown> = {};
  /** Events that ran. */
  events = 0;
  /** What was logged as an error. */
  readonly errors: unknown[][] = [];
  readonly #events = new Heap();
  /** When the last event of each lane runs. */
  readonly #lanes = new Map<object, number>();

  constructor({ seed, now }: { seed: number; now: number }) {
    this.random = new Random(seed);
    this.now = now;
    this.#clocks = [{ since: now, aheadMs: 0 }];
  }

  /** What `Date.now` tells; milliseconds since 1970, with fractions. */
  get clock(): number {
    return this.now + (this.#clocks.at(-1)?.aheadMs ?? 0);
  }

  /** The clock as if it had never been set back. */
  get forwardClock(): number {
    return this.clock + this.#setBackMs;
  }

  /** The latest time that the clock ever told: what was due by then may be over, though it was set back since. */
  get latestClock(): number {
    return Math.max(
      ...this.#clocks.map(({ aheadMs }, index) => (this.#clocks[index + 1]?.since ?? this.now) + aheadMs),
    );
  }

  /** When the clock told a time, the first time that it did. */
  timeOf(clock: number): number {
    const times = this.#clocks.map(({ since, aheadMs }, index) => ({
      time: Math.max(since, clock - aheadMs),
      end: this.#clocks[index + 1]?.since ?? Number.POSITIVE_INFINITY,
      isLater: clock - aheadMs >= since,
    }));
    return times.find(({ time, end, isLater }) => isLater && time < end)?.time ?? this.now;
  }

  /** How often the clock was set: a lease may last longer by that. */
  get timesSet(): number {
    return this.#timesSet;
  }

  /** By how much the clock was ever set back; milliseconds. What waits for a time may wait so much longer. */
  get setBackMs(): number {
    return this.#setBackMs;
  }

  /** The clock jumps, forward or back. Timers go on as if it had not. */
  setClock(byMs: number): void {
    this.#clocks.push({ since: this.now, aheadMs: this.clock - this.now + byMs });
    this.#timesSet++;
    if (byMs < 0) this.#setBackMs -= byMs;
  }

  /** Has something happen later. Events of one lane happen in the order in which they were asked for. */
  after(ms: number, run: () => void, lane?: object): void {
    let at = this.now + Math.max(0, ms);
    if (lane) {
      // A microsecond apart.
      at = Math.max(at, (this.#lanes.get(lane) ?? 0) + 0.001);
      this.#lanes.set(lane, at);
    }
    this.#events.push({ at, rank: this.random.next(), run });
  }

  /**
   * Lets happen what happens up to a time, or until something is so. Resolves early if nothing is left to happen. Throws if so many
   * events happen that something must go round in a circle.
   */
  run({
    until,
    stop = () => false,
    events = 1_000_000,
  }: {
    until: number;
    stop?: () => boolean;
    events?: number;
  }): Promise<void> {
    return inTurns((count) => {
      if (stop()) return false;
      const next = this.#events.first;
      if (!next || next.at > until) {
        if (Number.isFinite(until)) this.now = Math.max(this.now, until);
        return false;
      }
      if (count >= events) throw new Error(`${count} events happened, and no end is in sight`);
      this.#events.pop();
      this.now = Math.max(this.now, next.at);
      this.events++;
      runAsPlatform(next.run);
      return true;
    });
  }

  /** When the next event happens; undefined: nothing ever happens again. */
  get nextAt(): number | undefined {
    return this.#events.first?.at;
  }
}

/** Events, the earliest first. */
class Heap {
  readonly #items: Event[] = [];

  get first(): Event | undefined {
    return this.#items[0];
  }

  push(event: Event): void {
    const items = this.#items;
    let at = items.length;
    items.push(event);
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (isBefore(items[above], event)) break;
      items[at] = items[above] as Event;
      at = above;
    }
    items[at] = event;
  }

  pop(): void {
    const items = this.#items;
    const last = items.pop();
    if (!last || items.length === 0) return;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= items.length) break;
      const least =
        left + 1 < items.length && isBefore(items[left + 1], items[left] as Event) ? left + 1 : left;
      if (isBefore(last, items[least] as Event)) break;
      items[at] = items[least] as Event;
      at = least;
    }
    items[at] = last;
  }
}

function isBefore(one: Event | undefined, other: Event): boolean {
  return one !== undefined && (one.at < other.at || (one.at === other.at && one.rank <= other.rank));
}
