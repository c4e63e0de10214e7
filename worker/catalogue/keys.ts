import type { Key } from "../../protocol/keys.ts";

export interface KeyRow extends Key {
  /** The secret as worker/keys/sealed-secret.ts wrote it. */
  readonly sealedSecret: string;
}

interface StoredRow {
  id: string;
  sealed_secret: string;
  level: Key["level"];
  repos: string | null;
  description: string;
  created_at: number;
}

/** The access keys that were made here. The root key is not among them. */
export class KeyTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Rejects if the id is taken. */
  async add({ id, sealedSecret, level, repos, description, createdAt }: KeyRow): Promise<void> {
    await this.#db
      .prepare(
        `INSERT INTO access_keys (id, sealed_secret, level, repos, description, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
      )
      .bind(id, sealedSecret, level, repos && JSON.stringify(repos), description, createdAt)
      .run();
  }

  /** The key of an id, or null. */
  async find(id: string): Promise<KeyRow | null> {
    const row = await this.#db
      .prepare(
        `SELECT id, sealed_secret, level, repos, description, created_at FROM access_keys WHERE id = ?1`,
      )
      .bind(id)
      .first<StoredRow>();
    return row && { ...keyOf(row), sealedSecret: row.sealed_secret };
  }

  /** By id, those after `after`. */
  async list({ after, limit }: { after?: string; limit: number }): Promise<Key[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT id, level, repos, description, created_at FROM access_keys WHERE id > ?1 ORDER BY id LIMIT ?2`,
      )
      .bind(after ?? "", limit)
      .all<Omit<StoredRow, "sealed_secret">>();
    return results.map(keyOf);
  }

  /** Whether there was one to remove. */
  async remove(id: string): Promise<boolean> {
    const { meta } = await this.#db.prepare(`DELETE FROM access_keys WHERE id = ?1`).bind(id).run();
    return meta.changes > 0;
  }
}

function keyOf({ id, level, repos, description, created_at }: Omit<StoredRow, "sealed_secret">): Key {
  return {
    id,
    level,
    repos: repos === null ? null : JSON.parse(repos),
    description,
    createdAt: created_at,
  };
}
