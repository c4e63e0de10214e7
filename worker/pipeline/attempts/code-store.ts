import type { Code } from "../../../protocol/pipelines.ts";
import { Store } from "../../objects/store.ts";

/** Most that are kept in memory, each way. */
const MAX_KNOWN = 1000;

/** What ran datums, by number: the image or that there was none, the version of the specification, the node. */
export class CodeStore extends Store {
  readonly #numbers = new Map<string, number>();
  readonly #codes = new Map<number, Code>();
  /** While those are looked for that nothing names: what was found to be named, and what got a result since. */
  #named: Set<number> | undefined;

  /** The number of a code, which it gets with its first result. */
  numberOf(code: Code): number {
    const number = this.#numberOf(code);
    this.#named?.add(number);
    return number;
  }

  #numberOf(code: Code): number {
    const name = JSON.stringify([code.version, code.node, code.executor, code.image]);
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.#find(code) ?? this.#add(code);
    if (this.#numbers.size >= MAX_KNOWN) this.#numbers.clear();
    this.#numbers.set(name, number);
    return number;
  }

  /** Null for null, which is the code of what no result tells of. */
  get(number: number | null): Code | null {
    if (number === null) return null;
    const known = this.#codes.get(number);
    if (known) return known;
    const row = this.sql.first<{ version: number; node: string; executor: string; image: string }>`
      SELECT version, node, executor, image FROM codes WHERE number = ${number}`;
    if (!row) return null;
    const { version, node, executor, image } = row;
    const code = { version, node: node || null, executor, image: image || null };
    if (this.#codes.size >= MAX_KNOWN) this.#codes.clear();
    this.#codes.set(number, code);
    return code;
  }

  /** The number of the newest one; 0 if there is none. */
  newest(): number {
    return this.sql.first<{ number: number | null }>`SELECT max(number) AS number FROM codes`?.number ?? 0;
  }

  count(): number {
    return this.sql.first<{ count: number }>`SELECT count(*) AS count FROM codes`?.count ?? 0;
  }

  /** From now on it is noted what is named: what the caller adds, and what gets a result. */
  beginSweep(): { add(numbers: readonly number[]): void } {
    const named = new Set<number>();
    this.#named = named;
    return {
      add(numbers) {
        for (const number of numbers) named.add(number);
      },
    };
  }

  /** Forgets some of those up to a number that nothing names. Returns whether there may be more. */
  removeUnnamed(upTo: number, limit: number): boolean {
    const named = this.#named;
    if (!named) return false;
    const gone = this.sql.all<{ number: number }>`
      SELECT number FROM codes WHERE number <= ${upTo}
        AND number NOT IN (SELECT value FROM json_each(${JSON.stringify([...named])})) LIMIT ${limit}`;
    for (const { number } of gone) this.sql.run`DELETE FROM codes WHERE number = ${number}`;
    if (gone.length > 0) this.forget();
    return gone.length === limit;
  }

  endSweep(): void {
    this.#named = undefined;
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#numbers.clear();
    this.#codes.clear();
  }

  #find({ version, node, executor, image }: Code): number | undefined {
    return this.sql.first<{ number: number }>`
      SELECT number FROM codes WHERE version = ${version} AND node = ${node ?? ""}
        AND executor = ${executor} AND image = ${image ?? ""}`?.number;
  }

  #add(code: Code): number {
    const { version, node, executor, image } = code;
    this.sql.run`
      INSERT INTO codes (version, node, executor, image)
      VALUES (${version}, ${node ?? ""}, ${executor}, ${image ?? ""})`;
    const number = this.#find(code);
    if (number === undefined) throw new Error("a code that was just written down is not there");
    return number;
  }
}
