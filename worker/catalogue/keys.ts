import type { Key } from "../../protocol/keys.ts";
import { raw, Table } from "./table.ts";

/** What is told of a key, but for its sessions and what depends on the clock. */
type KeyFacts = Omit<Key, "expired" | "sessions">;

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

const SEALED_COLUMNS = `sealedSecret, ${COLUMNS}`;

/** The access keys that were made here. The root key is not among them. */
export class KeyTable extends Table {
  /** Rejects if the id is taken. */
  async add(key: KeyRow): Promise<void> {
    await this.#insert(key, "");
  }

  /** Returns false if the id is taken. */
  async addUnlessThere(key: KeyRow): Promise<boolean> {
    return (await this.#insert(key, "ON CONFLICT (id) DO NOTHING")) > 0;
  }

  async #insert(key: KeyRow, onConflict: string): Promise<number> {
    const { id, sealedSecret, level, repos, pipelines, description, createdAt, expiresAt } = key;
    return await this.run`
      INSERT INTO access_keys (sealedSecret, ${raw(COLUMNS)})
      VALUES (${sealedSecret}, ${id}, ${level}, ${repos && JSON.stringify(repos)}, ${pipelines ? 1 : 0},
        ${description}, ${createdAt}, ${expiresAt ?? null})
      ${raw(onConflict)}`;
  }

  /** The key of an id, or null. */
  async find(id: string): Promise<KeyRow | null> {
    const row = await this.first<StoredRow>`SELECT ${raw(SEALED_COLUMNS)} FROM access_keys WHERE id = ${id}`;
    return row && sealedKeyOf(row);
  }

  /** What each of some keys is for, by id, as far as it was said and the key is there. */
  async descriptions(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.all<{ id: string; description: string }>`
      SELECT id, description FROM access_keys
      WHERE description <> '' AND id IN (SELECT value FROM json_each(${JSON.stringify([...new Set(ids)])}))`;
    return new Map(rows.map(({ id, description }) => [id, description]));
  }

  /** Those of some keys that are there and have not expired, by id. */
  async standing(ids: readonly string[], now: number): Promise<ReadonlySet<string>> {
    const rows = await this.all<{ id: string }>`
      SELECT id FROM access_keys
      WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND (expiresAt IS NULL OR expiresAt > ${now})`;
    return new Set(rows.map(({ id }) => id));
  }

  /** By id, those after `after`. */
  async list({ after = "", limit }: { after?: string | undefined; limit: number }): Promise<KeyFacts[]> {
    const rows = await this.all<Omit<StoredRow, "sealedSecret">>`
      SELECT ${raw(COLUMNS)}, lastUsedOn FROM access_keys WHERE id > ${after} ORDER BY id LIMIT ${limit}`;
    return rows.map(keyOf);
  }

  /** As `list`, of each its sealed secret too. */
  async sealed({ after = "", limit }: { after?: string | undefined; limit: number }): Promise<KeyRow[]> {
    const rows = await this.all<StoredRow>`
      SELECT ${raw(SEALED_COLUMNS)} FROM access_keys WHERE id > ${after} ORDER BY id LIMIT ${limit}`;
    return rows.map(sealedKeyOf);
  }

  /** Replaces a sealed secret. Returns false if the key has another one by now, or is gone. */
  async reseal({ id, from, to }: { id: string; from: string; to: string }): Promise<boolean> {
    const changed = await this.run`
      UPDATE access_keys SET sealedSecret = ${to} WHERE id = ${id} AND sealedSecret = ${from}`;
    return changed > 0;
  }

  /** The key was used on a day, as `Key.lastUsedOn` has it. Changes nothing if that is known, or a later day. */
  async noteUse(id: string, day: string): Promise<void> {
    await this.run`
      UPDATE access_keys SET lastUsedOn = ${day}
      WHERE id = ${id} AND (lastUsedOn IS NULL OR lastUsedOn < ${day})`;
  }

  /** Removes a key with its sessions. Returns whether there was one. */
  async remove(id: string): Promise<boolean> {
    const [removed] = await this.batch([
      this.statement`DELETE FROM access_keys WHERE id = ${id}`,
      this.statement`DELETE FROM sessions WHERE key = ${id}`,
    ]);
    return removed !== undefined && removed.meta.changes > 0;
  }
}

function sealedKeyOf({ sealedSecret, ...row }: StoredRow): KeyRow {
  return { ...keyOf(row), sealedSecret };
}

function keyOf({
  repos,
  pipelines,
  expiresAt,
  lastUsedOn,
  ...row
}: Omit<StoredRow, "sealedSecret">): KeyFacts {
  return {
    ...row,
    repos: repos === null ? null : JSON.parse(repos),
    pipelines: pipelines === 1,
    ...(expiresAt !== null && { expiresAt }),
    ...(lastUsedOn && { lastUsedOn }),
  };
}
