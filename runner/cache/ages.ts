/** Ages from a millisecond on in steps of about two per cent: some 1,300 of them span a thousand years. */
const STEPS_PER_DOUBLING = 32;

/**
 * How many bytes were last used how long ago. Takes the same little memory for any number of files, because
 * it knows an age only to about two per cent.
 */
export class Ages {
  readonly #now: number;
  readonly #bytes: number[] = [];

  constructor(now: number) {
    this.#now = now;
  }

  add({ usedAt, bytes }: { usedAt: number; bytes: number }): void {
    const step = this.stepOf(usedAt);
    this.#bytes[step] = (this.#bytes[step] ?? 0) + bytes;
  }

  /** Grows with the age. What was used in the future, by a clock that was wrong, counts as used now. */
  stepOf(usedAt: number): number {
    return Math.floor(Math.log2(1 + Math.max(0, this.#now - usedAt)) * STEPS_PER_DOUBLING);
  }

  /** What has to go, oldest first, to free so many bytes: all that is older than `step`, and `bytes` of that step. */
  cut(bytes: number): { readonly step: number; readonly bytes: number } {
    let left = bytes;
    for (let step = this.#bytes.length - 1; step >= 0; step -= 1) {
      const here = this.#bytes[step] ?? 0;
      if (here >= left) return { step, bytes: left };
      left -= here;
    }
    return { step: -1, bytes: 0 };
  }
}
