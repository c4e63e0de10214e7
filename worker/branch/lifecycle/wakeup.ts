/** How long something that should have happened may wait for an instance that comes up; milliseconds. */
const LATE_MS = 10_000;

interface WakeupOptions {
  readonly now: () => number;
  /** When the earliest of all that waits is due; undefined where nothing waits. */
  readonly nextDue: () => number | undefined;
  readonly setAlarm: (at: number) => void;
}

/**
 * The object's one alarm, for all that waits: it is set for the earliest. An alarm that is set for earlier looks after
 * what is due later, too: it is not written for each call.
 */
export class Wakeup {
  readonly #options: WakeupOptions;
  /** When the alarm is set for, as far as this instance knows. */
  #at: number | undefined;

  constructor(options: WakeupOptions) {
    this.#options = options;
  }

  /** Wakes the object at a time or before. To be called in the turn that wrote down what for, so that both are written or neither. */
  by(time: number): void {
    const { now, setAlarm } = this.#options;
    const soonest = now() + 1;
    const at = Math.max(this.#at === undefined ? this.#withWaiting(time) : time, soonest);
    if (this.#at !== undefined && this.#at <= at && this.#at >= soonest) return;
    this.#at = at;
    setAlarm(at);
  }

  /** The alarm rang: none is set any more. */
  rang(): void {
    this.#at = undefined;
  }

  /** Sets the alarm for what waits. */
  renew(): void {
    const due = this.#options.nextDue();
    if (due !== undefined) this.by(due);
  }

  /** Setting an alarm replaces one that an earlier instance set: it must not be for later. */
  #withWaiting(time: number): number {
    const { now, nextDue } = this.#options;
    const due = nextDue();
    return due === undefined ? time : Math.min(time, Math.max(due, now() + LATE_MS));
  }
}
