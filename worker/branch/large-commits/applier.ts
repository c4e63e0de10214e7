import type { Ledger } from "../ledger/ledger.ts";
import type { Committer } from "../write/committer.ts";
import { checkSlice } from "./check.ts";
import { publish } from "./move-head.ts";
import { writeSlice } from "./write.ts";

/** How long after it began, or was seen, the alarm looks whether a large commit goes on; milliseconds. */
export const APPLYING_WATCH_MS = 10_000;

/** How long who asks for the end of a large commit waits for it before the answer is that it goes on; milliseconds. */
const ANSWER_MS = 1000;

interface ApplierOptions {
  readonly ledger: Ledger;
  readonly committer: Committer;
  readonly now: () => number;
  /** Lets other calls in for so many milliseconds; of 0, those that have arrived. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** Goes on with work when the call is answered. */
  readonly later: (work: Promise<unknown>) => void;
  /** To be called when nothing is being applied any more. */
  readonly over: () => void;
}

/**
 * Takes a large commit forward, slice by slice, with a turn for other calls in between. Each slice is a transaction
 * that leaves written down what comes next: whoever wakes the object after a crash goes on from there.
 */
export class Applier {
  readonly #options: ApplierOptions;
  /** Set while it goes on. */
  #run: Promise<void> | undefined;

  constructor(options: ApplierOptions) {
    this.#options = options;
  }

  /** Goes on with what is being applied, if anything is and it does not go on already. There must be tables. */
  goOn(): void {
    const { ledger, later, over } = this.#options;
    if (this.#run) return;
    if (ledger.applying.get()) {
      this.#run = this.#goThrough();
      later(this.#run);
    } else over();
  }

  /** Resolves when it does not go on any more; then, or after a second, it is worth to look. */
  async settled(): Promise<void> {
    await Promise.race([this.#run, this.#options.pause(ANSWER_MS)]);
  }

  async #goThrough(): Promise<void> {
    const { pause, over } = this.#options;
    try {
      do await pause(0);
      while (this.#slice());
    } catch (error) {
      // The alarm tries again.
      console.warn(`a large commit could not go on and is tried again: ${error}`);
      return;
    } finally {
      this.#run = undefined;
    }
    over();
  }

  /** Answers whether anything is left. */
  #slice(): boolean {
    const { ledger, committer, now } = this.#options;
    const applying = ledger.applying.get();
    if (!applying) return false;
    const { seq } = applying;
    if (seq === null) ledger.transaction(() => checkSlice(ledger, { applying, now: now() }));
    else {
      const writing = { ...applying, seq };
      const isLeft = ledger.transaction(() => writeSlice(ledger, writing));
      if (!isLeft) committer.one((stamps) => publish(ledger, { writing, stamps }));
    }
    return ledger.applying.get() !== null;
  }
}
