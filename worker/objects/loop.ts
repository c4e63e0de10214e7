import { yieldToOthers } from "./turns.ts";

/** A background job of an object, in the object's own words. */
export interface NamedLoop {
  /** What the log, `sluice doctor` and the API call it. */
  readonly name: string;
  /**
   * When it has something to do: a time that has passed means now, undefined means that nothing is to be done. One indexed
   * query or less. Asked of objects that have tables.
   */
  due(): number | undefined;
  /**
   * One step: a transaction, or a call that is awaited. Finds what is to be done by itself, also after a crash in any other
   * step.
   */
  step(): Next | Promise<Next> | Promise<void>;
  /** A wake finds out whether the loop is due before anything else. For one that is woken often, and mostly in vain. */
  readonly checksDue?: true;
  /** Others wait for what it does: it begins at once, though others of its object begin after answers. */
  readonly atOnce?: true;
  /** It was woken now: something changed of which `due` can't learn from rows. */
  heard?(): void;
  /** The alarm rang: what was put off to be done together is to be done. */
  rang?(): void;
  /** How that stands of which one may fail while the loop itself goes on. */
  parts?(): readonly LoopStanding[];
}

/**
 * What becomes of a loop after a step. `true`: it goes on at once. `next alarm`: it has done as much as one alarm may, since
 * the platform bounds the calls that one makes. Otherwise it goes on when it is due, or woken.
 */
export type Next = boolean | "next alarm" | undefined;

/** How a loop stands. `due`: when it goes on by itself; milliseconds since 1970, null: it rests until it is woken. */
export interface LoopStanding {
  readonly name: string;
  readonly state: "idle" | "due" | "running" | "failing";
  readonly due: number | null;
  /** How often in a row it failed, and with what the last time. */
  readonly tries: number;
  readonly error: string | null;
}

interface LoopOptions {
  /** What the object is called in the log. */
  readonly object: () => string;
  readonly now: () => number;
  /** It begins after the answer of the call that woke it, so that nobody waits for that longer. */
  readonly afterAnswers: boolean;
  /** Sees to it that the alarm rings by then. */
  readonly ringBy: (at: number) => void;
  /** Its step failed. */
  readonly failed: (failure: {
    readonly loop: string;
    tries: number;
    retryMs: number;
    error: unknown;
  }) => void;
}

/** So long after a step began, or found that it can't go on yet, the alarm looks after a loop; milliseconds. */
export const WATCH_MS = 10_000;
/** What failed is tried again after so long, then after double that, up to the last one. */
export const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;
/** Steps between two turns of others, of a loop that is woken again and again. */
const STEPS_PER_TURN = 10;

/** How long after so many tries in vain, 1 or more, the next one is made. */
export function retryMs(tries: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** (tries - 1), LAST_RETRY_MS);
}

/**
 * Runs the steps of a loop one at a time until nothing is left. As a step looks for itself what is to be done, a wake is no
 * message that could be lost: waking twice is as good as once, and any wake makes a crash good.
 */
export class Loop {
  readonly #loop: NamedLoop;
  readonly #options: LoopOptions;
  #running: Promise<void> | undefined;
  #again = false;
  #tries = 0;
  #error: string | null = null;
  /** When it is tried again, if it failed, or if it could not go on, though it is due. */
  #retryAt = 0;

  constructor(loop: NamedLoop, options: LoopOptions) {
    this.#loop = loop;
    this.#options = options;
  }

  get name(): string {
    return this.#loop.name;
  }

  get object(): string {
    return this.#options.object();
  }

  /** Goes on, once more if it is at work already; resolves when it has come to rest. Never rejects. */
  wake(): Promise<void> {
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      // A wake may have come after the last step, and found the loop still at work.
      if (this.#again && this.#retryAt <= this.#options.now()) void this.wake();
      else this.#rest();
    });
    return this.#running;
  }

  /** Resolves when it has come to rest. Undefined: it rests. */
  get resting(): Promise<void> | undefined {
    return this.#running;
  }

  /** A transaction gave it something to do, in whose turn this is called. */
  woken(): void {
    this.#loop.heard?.();
    const due = this.#loop.checksDue && !this.#running ? this.#dueOrNow() : 0;
    if (due === undefined) return;
    const { now, ringBy } = this.#options;
    if (due > now()) ringBy(due);
    else {
      ringBy(now() + WATCH_MS);
      void this.wake();
    }
  }

  /** The rows are written: that it can't be told when the loop is due must not fail the call that wrote them. */
  #dueOrNow(): number | undefined {
    try {
      return this.#loop.due();
    } catch {
      return 0;
    }
  }

  /** The alarm rang. */
  rang(): void {
    this.#loop.rang?.();
  }

  /** When the alarm is to look after it; undefined if it rests with nothing to do. */
  next(): number | undefined {
    if (this.#running) return this.#options.now() + WATCH_MS;
    const due = this.#loop.due();
    return due === undefined ? undefined : Math.max(due, this.#retryAt);
  }

  get standing(): LoopStanding {
    const due = this.next() ?? null;
    const rests = due === null ? "idle" : "due";
    const state = this.#running ? "running" : this.#tries > 0 ? "failing" : rests;
    return {
      name: this.name,
      state,
      due: this.#running ? null : due,
      tries: this.#tries,
      error: this.#error,
    };
  }

  /** With what it does apart. */
  get standings(): readonly LoopStanding[] {
    return [this.standing, ...(this.#loop.parts?.() ?? [])];
  }

  async #run(): Promise<void> {
    // A wake may come from inside a transaction: the step must not run in it.
    const isLater = this.#options.afterAnswers && !this.#loop.atOnce;
    await (isLater ? scheduler.wait(0) : Promise.resolve());
    this.#retryAt = 0;
    for (let steps = 1; this.#again; steps++) {
      this.#again = false;
      try {
        const next = await this.takeStep();
        const goesOn = next === true;
        // A step that goes on may have put aside what fails: only the last one has made it good.
        if (!goesOn) {
          this.#tries = 0;
          this.#error = null;
        }
        this.#again ||= goesOn;
        this.#retryAt = next === "next alarm" ? this.#options.now() : 0;
        if (goesOn || (this.#again && steps % STEPS_PER_TURN === 0)) await yieldToOthers();
      } catch (error) {
        this.#failed(error);
        return;
      }
    }
  }

  /** One step; apart, so that tests can have the object die before and after it. */
  async takeStep(): Promise<Next> {
    return (await this.#loop.step()) ?? undefined;
  }

  #failed(error: unknown): void {
    this.#tries++;
    this.#error = String(error);
    const waitMs = retryMs(this.#tries);
    this.#retryAt = this.#options.now() + waitMs;
    this.#options.failed({ loop: this.name, tries: this.#tries, retryMs: waitMs, error });
  }

  /** If not even the next try can be written down, since the object is broken or full, the next wake is that try. */
  #rest(): void {
    const { now, ringBy } = this.#options;
    try {
      const due = this.#loop.due();
      if (due === undefined) return;
      // It is due and did not go on: it waits for something that will wake it.
      if (due <= now() && this.#retryAt === 0) this.#retryAt = now() + WATCH_MS;
      ringBy(Math.max(due, this.#retryAt));
    } catch (error) {
      this.#error = String(error);
      console.warn(`no alarm could be set for the loop '${this.name}'`, error);
    }
  }
}
