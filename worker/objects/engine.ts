import { Alarm } from "./alarm.ts";
import { Loop, type LoopStanding, type NamedLoop, WATCH_MS } from "./loop.ts";
import type { Woken } from "./transaction.ts";

/** Longest time that an alarm waits for the loops that it woke; milliseconds. What takes longer goes on without it. */
const ALARM_MS = 20_000;

interface EngineOptions {
  /** What the object is called in the log, such as "branch master.photos". */
  readonly object: () => string;
  /** Whether the object has tables. */
  readonly exists: () => boolean;
  readonly now: () => number;
  readonly storage: Pick<DurableObjectStorage, "setAlarm" | "deleteAlarm">;
  readonly loops: readonly NamedLoop[];
  /** Loops that are woken begin after the answer of the call that woke them. Absent: in its next breath. */
  readonly afterAnswers?: true;
}

/**
 * What an object does between its calls: its named loops, over the one alarm that the platform gives it. Nothing that is to be
 * done is only in memory. A store that writes down something to do wakes the loop for it, and the alarm is set in the same turn;
 * so after a crash the alarm, or the first call before it, wakes every loop that is due.
 */
export class Engine {
  readonly #options: EngineOptions;
  readonly #loops: ReadonlyMap<string, Loop>;
  readonly #alarm: Alarm;

  constructor(options: EngineOptions) {
    this.#options = options;
    const { now, storage, loops, afterAnswers = false } = options;
    this.#alarm = new Alarm({
      now,
      nextDue: () => this.#next(),
      set: (at) => void storage.setAlarm(at),
      unset: () => void storage.deleteAlarm(),
    });
    const loopOptions = {
      object: options.object,
      now,
      afterAnswers,
      ringBy: (at: number) => this.#alarm.ringBy(at),
      failed: (failure: Failure) => tellFailure(options.object(), failure),
    };
    this.#loops = new Map(loops.map((loop) => [loop.name, new Loop(loop, loopOptions)]));
  }

  /** A transaction gave loops something to do. To be called in its turn, so that rows and alarm are written together. */
  woken(woken: Woken): void {
    for (const [name, at] of woken) {
      if (at > this.#options.now()) this.#alarm.ringBy(at);
      else this.#loop(name).woken();
    }
  }

  /** Has a loop look for what there is to do. Resolves when it has come to rest. Never rejects. */
  wake(name: string): Promise<void> {
    this.#alarm.ringBy(this.#options.now() + WATCH_MS);
    return this.#loop(name).wake();
  }

  /** Resolves when the loop has come to rest; undefined: it rests. */
  resting(name: string): Promise<void> | undefined {
    return this.#loop(name).resting;
  }

  /** Wakes each loop that is due; resolves when all have come to rest. For an instance that comes up. */
  async resume(): Promise<void> {
    const { exists, now } = this.#options;
    if (!exists()) return;
    for (const loop of this.#loops.values()) {
      const next = this.#nextOf(loop);
      if (next !== undefined && next <= now()) void this.wake(loop.name);
    }
    // Where nothing goes on, no alarm is written: what is not due has one.
    if (this.#running().length === 0) return;
    // One loop may wake another that was at rest already.
    for (let running = this.#running(); running.length > 0; running = this.#running())
      await Promise.all(running);
    // The alarm that watched over them is not needed any more.
    this.#alarm.renew();
  }

  /**
   * The alarm rang. Never fails: the platform tries an alarm that fails six times and then drops it, and what was to be done
   * would wait for a call. Instead the next alarm is set, and the failure told.
   */
  async alarm(): Promise<void> {
    const { object, exists, now } = this.#options;
    // This alone may fail: tables of another family are not to be touched, not even by another alarm.
    if (!exists()) return;
    this.#alarm.rang();
    for (const loop of this.#loops.values()) loop.rang();
    try {
      await within(ALARM_MS, this.resume());
      this.#alarm.renew();
    } catch (error) {
      tellFailure(object(), { loop: "the alarm", tries: 1, retryMs: WATCH_MS, error });
      this.#alarm.ringBy(now() + WATCH_MS);
    }
  }

  /** How each loop stands, for whoever looks for a fault. */
  standing(): LoopStanding[] {
    return [...this.#loops.values()].flatMap((loop) => loop.standings);
  }

  #loop(name: string): Loop {
    const loop = this.#loops.get(name);
    if (!loop) throw new Error(`no loop is called '${name}'`);
    return loop;
  }

  #running(): Promise<void>[] {
    return [...this.#loops.values()].flatMap(({ resting }) => resting ?? []);
  }

  #next(): number | undefined {
    return earliest(...[...this.#loops.values()].map((loop) => this.#nextOf(loop)));
  }

  /** A loop that can't tell when it is due holds up no other: it is asked again. */
  #nextOf(loop: Loop): number | undefined {
    try {
      return loop.next();
    } catch (error) {
      tellFailure(this.#options.object(), { loop: loop.name, tries: 1, retryMs: WATCH_MS, error });
      return this.#options.now() + WATCH_MS;
    }
  }
}

interface Failure {
  readonly loop: string;
  readonly tries: number;
  readonly retryMs: number;
  readonly error: unknown;
}

/** One line for each failure, in one form, so that one query finds all of them. */
export function tellFailure(object: string, { loop, tries, retryMs, error }: Failure): void {
  const line = { event: "loop-failed", object, loop, tries, retryMs, error: String(error) };
  console.warn(`${loop} of ${object} failed, retrying in ${Math.ceil(retryMs / 1000)} s: ${error}`, line);
}

/** The least of the times that are there. */
export function earliest(...times: readonly (number | undefined)[]): number | undefined {
  const there = times.filter((time) => time !== undefined);
  return there.length === 0 ? undefined : Math.min(...there);
}

/** Resolves as the work does, or with nothing after so long. */
export async function within<T>(waitMs: number, work: Promise<T>): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), waitMs);
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}
