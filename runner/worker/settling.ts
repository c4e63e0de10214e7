/** Work that goes on beside the main line, of which there may only be so much. */
export class Settling {
  readonly #running = new Set<Promise<void>>();

  /** `work` must not fail. */
  add(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Waits until fewer than `limit` are running. */
  async room(limit: number): Promise<void> {
    while (this.#running.size >= limit) await Promise.race(this.#running);
  }

  /** Waits until what runs now has ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#running);
  }
}
