/** Calls that wait in memory for something to change. */
export class Waiters {
  readonly #waiting = new Set<() => void>();

  /** Resolves at the next wake, or after so many milliseconds. */
  async wait(waitMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, waitMs);
      this.#waiting.add(done);
    });
  }

  wake(): void {
    for (const done of [...this.#waiting]) done();
  }

  get idle(): boolean {
    return this.#waiting.size === 0;
  }
}
