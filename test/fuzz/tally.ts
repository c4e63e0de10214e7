/** What was sent and what it came to. */
export class Tally {
  readonly #statuses = new Map<string, Map<string, number>>();

  add(kind: string, outcome: string | number): void {
    const counts = this.#statuses.get(kind) ?? new Map<string, number>();
    counts.set(String(outcome), (counts.get(String(outcome)) ?? 0) + 1);
    this.#statuses.set(kind, counts);
  }

  get kinds(): readonly string[] {
    return [...this.#statuses.keys()];
  }

  /** How many there were, and the share that was done as asked. */
  get sums(): { readonly sent: number; readonly good: number } {
    let [sent, good] = [0, 0];
    for (const counts of this.#statuses.values()) {
      for (const [outcome, count] of counts) {
        sent += count;
        if (/^(2\d\d|304|good)$/.test(outcome)) good += count;
      }
    }
    return { sent, good };
  }

  /** A line for each kind. */
  toString(): string {
    return [...this.#statuses]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([kind, counts]) => {
        const outcomes = [...counts].sort().map(([outcome, count]) => `${outcome}: ${count}`);
        return `  ${kind.padEnd(60)} ${outcomes.join("  ")}`;
      })
      .join("\n");
  }
}
