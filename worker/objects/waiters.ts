/** How long a call still waits. A clock that is set back makes that no longer. */
export class WaitTime {
  readonly #now: () => number;
  #leftMs: number;
  #countedAt: number;

  constructor(waitMs: number, now: () => number) {
    this.#now = now;
    this.#leftMs = waitMs;
    this.#countedAt = now();
  }

  get leftMs(): number {
    const now = this.#now();
    this.#leftMs -= Math.max(0, now - this.#countedAt);
    this.#countedAt = now;
    return this.#leftMs;
  }
}

/** Calls that wait in memory for something to change. */
export class Waiters {
  readonly #waiting = new Set<() => void>();

  /** Resolves when it is woken, or after so many milliseconds. Returns whether it was woken. */
  async wait(waitMs: number): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      const end = (isWoken: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(woken);
        resolve(isWoken);
      };
      const woken = (): void => end(true);
      const timer = setTimeout(() => end(false), waitMs);
      this.#waiting.add(woken);
    });
  }

  wake(): void {
    for (const woken of [...this.#waiting]) woken();
  }

  /** Wakes the one that has waited longest. */
  wakeOne(): void {
    const [woken] = this.#waiting;
    woken?.();
  }

  get idle(): boolean {
    return this.#waiting.size === 0;
  }
}

/** Waiters for something to change about one of many. */
export class KeyedWaiters {
  readonly #waiters = new Map<string, Waiters>();

  /** Resolves when the one of that key is woken next, or after so many milliseconds. */
  async wait(key: string, waitMs: number): Promise<void> {
    const waiters = this.#waiters.get(key) ?? new Waiters();
    this.#waiters.set(key, waiters);
    await waiters.wait(waitMs);
    if (waiters.idle && this.#waiters.get(key) === waiters) this.#waiters.delete(key);
  }

  wake(key: string): void {
    this.#waiters.get(key)?.wake();
  }
}
