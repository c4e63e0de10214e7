/** How often something occurred: kinds of steps, pairs of kinds that ran at the same time, faults. */
export class Tally {
  readonly counts: Map<string, number>;
  readonly #underWay: string[] = [];

  constructor(counts = new Map<string, number>()) {
    this.counts = counts;
  }

  /** One for a history, that counts into this one: what is under way when a history is broken off is so in no other. */
  ofHistory(): Tally {
    return new Tally(this.counts);
  }

  add(what: string, times = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + times);
  }

  /** Does a step, and counts it, with each that is under way when it begins. */
  async during<T>(kind: string, step: () => Promise<T>): Promise<T> {
    this.add(`step ${kind}`);
    for (const other of this.#underWay) this.add(`pair ${[kind, other].sort().join(" + ")}`);
    this.#underWay.push(kind);
    try {
      return await step();
    } finally {
      this.#underWay.splice(this.#underWay.indexOf(kind), 1);
    }
  }
}
