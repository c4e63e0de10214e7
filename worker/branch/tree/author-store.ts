import { BranchStore } from "../store.ts";

/** Most keys whose numbers are kept in memory. */
const MAX_KNOWN = 1000;

/** The access keys that made commits, by number. A commit refers to a number, since many commits are of few keys. */
export class AuthorStore extends BranchStore {
  readonly #known = new Map<string, number>();

  /** The number of a key, which it gets with its first commit. */
  numberOf(key: string): number {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const number = this.#find(key) ?? this.#add(key);
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(key, number);
    return number;
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#known.clear();
  }

  #find(key: string): number | undefined {
    return this.sql.first<{ number: number }>`SELECT number FROM authors WHERE key = ${key}`?.number;
  }

  #add(key: string): number {
    this.sql.run`INSERT INTO authors (key) VALUES (${key})`;
    const number = this.#find(key);
    if (number === undefined) throw new Error("a key that was just written down is not there");
    return number;
  }
}
