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
  pipelines: number;
  description: string;
  created_at: number;
}

const COLUMNS = "id, level, repos, pipelines, description, created_at";

/** The access keys that were made here. The root key is not among them. */
export class KeyTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Rejects if the id is taken. */
  async add({ id, sealedSecret, level, repos, pipelines, description, createdAt }: KeyRow): Promise<void> {
    await this.#db
      .prepare(
        `INSERT INTO access_keys (sealed_secret, ${COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`,
      )
      .bind(
        sealedSecret,
        id,
        level,
        repos && JSON.stringify(repos),
        pipelines ? 1 : 0,
        description,
        createdAt,
      )
      .run();
  }

  /** The key of an id, or null. */
  async find(id: string): Promise<KeyRow | null> {
    const row = await this.#db
      .prepare(`SELECT sealed_secret, ${COLUMNS} FROM access_keys WHERE id = ?1`)
      .bind(id)
      .first<StoredRow>();
    return row && { ...keyOf(row), sealedSecret: row.sealed_secret };
  }

  /** By id, those after `after`. */
  async list({ after, limit }: { after?: string; limit: number }): Promise<Key[]> {
    const { results } = await this.#db
      .prepare(`SELECT ${COLUMNS} FROM access_keys WHERE id > ?1 ORDER BY id LIMIT ?2`)
      .bind(after ?? "", limit)
      .all<Omit<StoredRow, "sealed_secret">>();
    return results.map(keyOf);
  }

  /** As `list`, of each its sealed secret. */
  async sealed({
    after,
    limit,
  }: {
    after?: string;
    limit: number;
  }): Promise<Pick<KeyRow, "id" | "sealedSecret">[]> {
    const { results } = await this.#db
      .prepare(`SELECT id, sealed_secret AS sealedSecret FROM access_keys WHERE id > ?1 ORDER BY id LIMIT ?2`)
      .bind(after ?? "", limit)
      .all<Pick<KeyRow, "id" | "sealedSecret">>();
    return results;
  }

  /** Replaces a sealed secret. Returns false if the key has another one by now, or is gone. */
  async reseal({ id, from, to }: { id: string; from: string; to: string }): Promise<boolean> {
    const { meta } = await this.#db
      .prepare(`UPDATE access_keys SET sealed_secret = ?3 WHERE id = ?1 AND sealed_secret = ?2`)
      .bind(id, from, to)
      .run();
    return meta.changes > 0;
  }

  /** Whether there was one to remove. */
  async remove(id: string): Promise<boolean> {
    const { meta } = await this.#db.prepare(`DELETE FROM access_keys WHERE id = ?1`).bind(id).run();
    return meta.changes > 0;
  }
}

function keyOf({
  id,
  level,
  repos,
  pipelines,
  description,
  created_at,
}: Omit<StoredRow, "sealed_secret">): Key {
  return {
    id,
    level,
    repos: repos === null ? null : JSON.parse(repos),
    pipelines: pipelines === 1,
    description,
    createdAt: created_at,
  };
}
