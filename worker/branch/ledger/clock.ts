/** How far ahead of itself a promise is written down, so that not each one is a write; milliseconds. */
const PROMISED_AHEAD_MS = 1000;

/** Where the bound of all promises is kept. */
interface PromiseStore {
  load(): { readonly promised: number; readonly newestCommit: number };
  save(promised: number): void;
}

/**
 * The times of commits. They never go back, and each is later than every `now` that a feed was told before (FeedPage.now),
 * even if the host's clock goes back or the object restarts. Commits between two such answers may share a millisecond,
 * since a burst would run ahead of the clock otherwise; their ids grow nonetheless.
 */
export class CommitClock {
  readonly #store: PromiseStore;
  /** The next commit is later than this. */
  #passed = 0;
  #newest = 0;
  #saved = 0;

  constructor(store: PromiseStore) {
    this.#store = store;
  }

  /** Call this before all else, once there are tables. After a restart nobody knows which of the written times were told: all count. */
  load(): void {
    const { promised, newestCommit } = this.#store.load();
    this.#passed = Math.max(this.#passed, promised, newestCommit);
    this.#newest = Math.max(this.#newest, newestCommit);
    this.#saved = promised;
  }

  /** The time of a commit made at `now`. */
  next(now: number): number {
    this.#newest = Math.max(now, this.#passed + 1, this.#newest);
    return this.#newest;
  }

  /** A time that every later commit comes after. `durable`: whether there are tables to write it to. */
  promise(now: number, { durable }: { durable: boolean }): number {
    this.#passed = Math.max(now, this.#passed, this.#newest);
    if (durable && this.#passed > this.#saved) {
      this.#saved = this.#passed + PROMISED_AHEAD_MS;
      this.#store.save(this.#saved);
    }
    return this.#passed;
  }
}
