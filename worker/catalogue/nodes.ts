export interface NodeRow {
  readonly name: string;
  readonly executor: string;
  readonly capacity: number;
  /** When it was last heard of, by the gateway's clock; milliseconds since 1970. */
  readonly seenAt: number;
}

/** The nodes of the fleet: they live here alone. */
export class NodeTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  async record({ name, executor, capacity, seenAt }: NodeRow): Promise<void> {
    await this.#db
      .prepare(
        `INSERT INTO nodes (name, executor, capacity, seen_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET
           executor = excluded.executor, capacity = excluded.capacity, seen_at = excluded.seen_at`,
      )
      .bind(name, executor, capacity, seenAt)
      .run();
  }

  /** A node that leaves in good order is gone at once. */
  async remove(name: string): Promise<void> {
    await this.#db.prepare(`DELETE FROM nodes WHERE name = ?1`).bind(name).run();
  }

  /** Nodes heard of since a time, by name. */
  async seenSince(since: number): Promise<NodeRow[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT name, executor, capacity, seen_at AS seenAt FROM nodes WHERE seen_at >= ?1 ORDER BY name`,
      )
      .bind(since)
      .all<NodeRow>();
    return results;
  }
}
