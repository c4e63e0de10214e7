import type { Assignments } from "./assignments.ts";

/** What was asked so long ago is asked again: nodes without a socket come and go unannounced. */
const FRESH_MS = 2_000;

/**
 * What the catalogue said last of what nodes are to run, for all that beat within FRESH_MS. What is asked after a wake-up is newer
 * than what it was for: `forget` comes before each, and an answer that was under way by then is given to nobody who asks later.
 */
export class KnownAssignments {
  readonly #read: () => Promise<Assignments>;
  readonly #now: () => number;
  #last: { readonly answer: Promise<Assignments>; readonly askedAt: number } | undefined;

  constructor(read: () => Promise<Assignments>, now: () => number) {
    this.#read = read;
    this.#now = now;
  }

  forget(): void {
    this.#last = undefined;
  }

  /** Of a node that lives, as the catalogue was told before this is asked. */
  async of(node: string): Promise<ReturnType<Assignments["of"]>> {
    const known = (await this.#known()).of(node);
    if (known) return known;
    // It has come since.
    this.forget();
    return (await this.#known()).of(node);
  }

  async #known(): Promise<Assignments> {
    const now = this.#now();
    const last = this.#last;
    // Not one of a time that is still to come either, since the clock was set back.
    if (last && Math.abs(now - last.askedAt) < FRESH_MS) return await last.answer;
    const asked = { answer: this.#read(), askedAt: now };
    this.#last = asked;
    try {
      return await asked.answer;
    } catch (error) {
      if (this.#last === asked) this.#last = undefined;
      throw error;
    }
  }
}
