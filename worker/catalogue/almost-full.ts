import { Table } from "./table.ts";

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
export class AlmostFullTable extends Table {
  async tell({ kind, name, toldAt }: AlmostFullRow): Promise<void> {
    await this.run`
      INSERT INTO almost_full (kind, name, toldAt) VALUES (${kind}, ${name}, ${toldAt})
      ON CONFLICT (kind, name) DO UPDATE SET toldAt = max(toldAt, excluded.toldAt)`;
  }

  /** The newest words first. */
  async list(limit: number): Promise<AlmostFullRow[]> {
    return await this.all`SELECT kind, name, toldAt FROM almost_full ORDER BY toldAt DESC LIMIT ${limit}`;
  }

  /** Removes what is no longer true, unless the object has said it again meanwhile. */
  async forget({ kind, name, toldAt }: AlmostFullRow): Promise<void> {
    await this.run`DELETE FROM almost_full WHERE kind = ${kind} AND name = ${name} AND toldAt = ${toldAt}`;
  }
}
