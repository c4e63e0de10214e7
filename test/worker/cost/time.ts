import { vi } from "vitest";

/** By the clock of the test, what is to be done when. */
export class Time {
  /** Of calls that wait. */
  readonly answers = new Set<Promise<unknown>>();
  #events: { readonly at: number; readonly run: () => Promise<void> }[] = [];

  after(ms: number, run: () => Promise<void>): void {
    this.#events.push({ at: Date.now() + ms, run });
  }

  /** Lets so much pass. What is due is done to its end before time goes on. */
  async pass(ms: number): Promise<void> {
    const end = Date.now() + ms;
    for (;;) {
      const next = this.#events.toSorted((a, b) => a.at - b.at)[0];
      vi.setSystemTime(Math.min(next?.at ?? end, end));
      if (!next || next.at > end) return;
      this.#events = this.#events.filter((event) => event !== next);
      await next.run();
    }
  }
}
