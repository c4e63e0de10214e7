/** A token bucket: full at first, it fills again with time. `capacity` and `perSecond` are of one unit. */
export class Allowance {
  readonly #capacity: number;
  readonly #perSecond: number;
  #left: number;
  #countedAt: number | undefined;

  constructor({ capacity, perSecond }: { capacity: number; perSecond: number }) {
    this.#capacity = capacity;
    this.#perSecond = perSecond;
    this.#left = capacity;
  }

  /** Whether any is left at `now` (milliseconds). */
  isLeft(now: number): boolean {
    const sinceMs = now - (this.#countedAt ?? now);
    this.#countedAt = now;
    this.#left = Math.min(this.#capacity, this.#left + (sinceMs * this.#perSecond) / 1000);
    return this.#left > 0;
  }

  /** May take more than is left; the debt is paid later. */
  spend(amount: number): void {
    this.#left -= amount;
  }
}
