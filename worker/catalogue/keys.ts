import type { Key } from "../../protocol/keys.ts";

/** What is told of a key, but for what depends on the clock. */
type KeyFacts = Omit<Key, "expired">;

export interface KeyRow extends KeyFacts {
  /** The secret as worker/keys/sealed-secret.ts wrote it. */
  readonly sealedSecret: string;
}

interface StoredRow {
  id: string;
  sealedSecret: string;
  level: Key["level"];
  repos: string | null;
  pipelines: number;
  description: string;
  createdAt: number;
  expiresAt: number | null;
  /** Only lists ask for it: no request needs the column to be let in. */
  lastUsedOn?: string | null;
}

const COLUMNS = "id, level, repos, pipelines, description, createdAt, expiresAt";

/** The access keys that were made here. The root key is not among them. */
export class KeyTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Rejects if the id is taken. */
  async add(key: KeyRow): Promise<void> {
    await this.#insert(key, "");
  }

  /** Returns false if the id is taken. */
  async addUnlessThere(key: KeyRow): Promise<boolean> {
    const { changes } = await this.#insert(key, "ON CONFLICT (id) DO NOTHING");
    return changes > 0;
  }

  async #insert(key: KeyRow, onConflict: string): Promise<D1Meta> {
    const { id, sealedSecret, level, repos, pipelines, description, createdAt, expiresAt } = key;
    const { meta } = await this.#db
      .prepare(
        `INSERT INTO access_keys (sealedSecret, ${COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ${onConflict}`,
      )
      .bind(
        sealedSecret,
        id,
        level,
        repos && JSON.stringify(repos),
        pipelines ? 1 : 0,
        description,
        createdAt,
        expiresAt ?? null,
      )
      .run();
    return meta;
  }

  /** The key of an id, or null. */
  async find(id: string): Promise<KeyRow | null> {
    const row = await this.#db
      .prepare(`SELECT sealedSecret, ${COLUMNS} FROM access_keys WHERE id = ?1`)
      .bind(id)
      .first<StoredRow>();
    return row && { ...keyOf(row), sealedSecret: row.sealedSecret };
  }

  /** What each of some keys is for, by id, as far as it was said and the key is there. */
  async descriptions(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (ids.length === 0) return new Map();
    const { results } = await this.#db
      .prepare(
        `SELECT id, description FROM access_keys
         WHERE description <> '' AND id IN (SELECT value FROM json_each(?1))`,
      )
      .bind(JSON.stringify([...new Set(ids)]))
      .all<{ id: string; description: string }>();
    return new Map(results.map(({ id, description }) => [id, description]));
  }

  /** By id, those after `after`. */
  async list({ after, limit }: { after?: string; limit: number }): Promise<KeyFacts[]> {
    const { results } = await this.#db
      .prepare(`SELECT ${COLUMNS}, lastUsedOn FROM access_keys WHERE id > ?1 ORDER BY id LIMIT ?2`)
      .bind(after ?? "", limit)
      .all<Omit<StoredRow, "sealedSecret">>();
    return results.map(keyOf);
  }

  /** As `list`, of each its sealed secret too. */
  async sealed({ after, limit }: { after?: string; limit: number }): Promise<KeyRow[]> {
    const { results } = await this.#db
      .prepare(`SELECT sealedSecret, ${COLUMNS} FROM access_keys WHERE id > ?1 ORDER BY id LIMIT ?2`)
      .bind(after ?? "", limit)
      .all<StoredRow>();
    return results.map((row) => ({ ...keyOf(row), sealedSecret: row.sealedSecret }));
  }

  /** Replaces a sealed secret. Returns false if the key has another one by now, or is gone. */
  async reseal({ id, from, to }: { id: string; from: string; to: string }): Promise<boolean> {
    const { meta } = await this.#db
      .prepare(`UPDATE access_keys SET sealedSecret = ?3 WHERE id = ?1 AND sealedSecret = ?2`)
      .bind(id, from, to)
      .run();
    return meta.changes > 0;
  }

  /** The key was used on a day, as `Key.lastUsedOn` has it. Changes nothing if that is known, or a later day. */
  async noteUse(id: string, day: string): Promise<void> {
    await this.#db
      .prepare(
        `UPDATE access_keys SET lastUsedOn = ?2
         WHERE id = ?1 AND (lastUsedOn IS NULL OR lastUsedOn < ?2)`,
      )
      .bind(id, day)
      .run();
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
  createdAt,
  expiresAt,
  lastUsedOn,
}: Omit<StoredRow, "sealedSecret">): KeyFacts {
  return {
    id,
    level,
    repos: repos === null ? null : JSON.parse(repos),
    pipelines: pipelines === 1,
    description,
    createdAt,
    ...(expiresAt !== null && { expiresAt }),
    ...(lastUsedOn && { lastUsedOn }),
  };
}
