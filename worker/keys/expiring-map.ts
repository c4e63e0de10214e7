export interface ExpiringMapOptions {
  /** How long an entry is good, in milliseconds. */
  readonly ttlMs: number;
  /** If there are more, the oldest entry goes. */
  readonly maxEntries: number;
}

/** Remembers values by id for a while, within a bound. The clock is the caller's. */
export class ExpiringMap<Value> {
  readonly #options: ExpiringMapOptions;
  /** In the order in which they were set, and so in which they expire. */
  readonly #entries = new Map<string, { readonly value: Value; readonly since: number }>();

  constructor(options: ExpiringMapOptions) {
    this.#options = options;
  }

  /** What was set for an id less than `ttlMs` before `now`; nothing of a time that is still to come, since the clock was set back. */
  get(id: string, now: number): Value | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    if (now >= entry.since && now - entry.since < this.#options.ttlMs) return entry.value;
    this.#entries.delete(id);
    return undefined;
  }

  /** Remembers a value that was true at `since`. */
  set(id: string, { value, since }: { value: Value; since: number }): void {
    this.#entries.delete(id);
    this.#entries.set(id, { value, since });
    if (this.#entries.size <= this.#options.maxEntries) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
