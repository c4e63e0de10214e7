/**
 * How long something that should have happened may wait for an instance that comes up, and how long after its time an alarm
 * that has not rung is still taken to be about to; milliseconds.
 */
const LATE_MS = 10_000;

interface AlarmOptions {
  readonly now: () => number;
  /** When the earliest of all that waits is due; undefined if nothing waits. */
  readonly nextDue: () => number | undefined;
  readonly set: (at: number) => void;
  readonly unset: () => void;
}

/**
 * The object's one alarm, for all that waits: it is set for the earliest. An alarm that is set for earlier also looks
 * after what is due later, so that not every call writes one. When nothing waits, none is set and the object rests.
 */
export class Alarm {
  readonly #options: AlarmOptions;
  /** When the alarm is set for, as far as this instance knows. */
  #at: number | undefined;

  constructor(options: AlarmOptions) {
    this.#options = options;
  }

  /** Sees to it that the alarm rings at a time or before. Call it in the turn that wrote down what for, so that both are written or neither. */
  ringBy(time: number): void {
    const { now } = this.#options;
    const soonest = now() + 1;
    const at = Math.max(this.#at === undefined ? this.#withWaiting(time) : time, soonest);
    if (this.#at !== undefined && this.#at <= at) {
      // One that is due rings in a moment. Setting it anew would cancel that, and under a steady load it would never ring.
      if (now() - this.#at < LATE_MS) return;
      this.#set(soonest);
    } else this.#set(at);
  }

  #set(at: number): void {
    this.#at = at;
    this.#options.set(at);
  }

  /** The alarm rang: none is set any more. */
  rang(): void {
    this.#at = undefined;
  }

  /** Sets the alarm for what waits, and no sooner; if nothing does, none stands. For the end of an alarm's work. */
  renew(): void {
    const due = this.#options.nextDue();
    if (due !== undefined) {
      const at = Math.max(due, this.#options.now() + 1);
      if (at !== this.#at) this.#set(at);
    } else {
      // Also one that was set before this one rang, by an instance that came up for it.
      this.#at = undefined;
      this.#options.unset();
    }
  }

  /** Setting an alarm replaces one that an earlier instance set: it must not be for later. */
  #withWaiting(time: number): number {
    const { now, nextDue } = this.#options;
    const due = nextDue();
    return due === undefined ? time : Math.min(time, Math.max(due, now() + LATE_MS));
  }
}
