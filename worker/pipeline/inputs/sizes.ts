import type { Sql } from "../../sqlite/sql.ts";

/** How many elements each input of a cross product has, those that are about to be born included: kept, never counted. */
export class SizeStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  add(input: number, change: number): void {
    this.#sql.run`
      INSERT INTO sizes (input, elements) VALUES (${input}, ${change})
      ON CONFLICT (input) DO UPDATE SET elements = elements + excluded.elements`;
  }

  of(input: number): number {
    return (
      this.#sql.first<{ elements: number }>`SELECT elements FROM sizes WHERE input = ${input}`?.elements ?? 0
    );
  }

  /** No input has any. */
  clear(): void {
    this.#sql.run`DELETE FROM sizes`;
  }
}
