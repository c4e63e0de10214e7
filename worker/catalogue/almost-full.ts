/** An object whose database is almost full, or was when it said so. */
export interface AlmostFullRow {
  readonly kind: "branch" | "pipeline";
  /** Of a branch its bucket. */
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly toldAt: number;
}

/**
 * Which objects said that they are almost full. A word may get lost, since nobody waits for it: the object says it again with
 * each hundredth that it grows. One that is no longer true is removed by whoever asks the object.
 */
export class AlmostFullTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  async tell({ kind, name, toldAt }: AlmostFullRow): Promise<void> {
    await this.#db
      .prepare(
        `INSERT INTO almost_full (kind, name, toldAt) VALUES (?1, ?2, ?3)
         ON CONFLICT (kind, name) DO UPDATE SET toldAt = max(toldAt, excluded.toldAt)`,
      )
      .bind(kind, name, toldAt)
      .run();
  }

  /** The newest words first. */
  async list(limit: number): Promise<AlmostFullRow[]> {
    const { results } = await this.#db
      .prepare(`SELECT kind, name, toldAt FROM almost_full ORDER BY toldAt DESC LIMIT ?1`)
      .bind(limit)
      .all<AlmostFullRow>();
    return results;
  }

  /** Removes what is no longer true, unless the object has said it again meanwhile. */
  async forget({ kind, name, toldAt }: AlmostFullRow): Promise<void> {
    await this.#db
      .prepare(`DELETE FROM almost_full WHERE kind = ?1 AND name = ?2 AND toldAt = ?3`)
      .bind(kind, name, toldAt)
      .run();
  }
}
