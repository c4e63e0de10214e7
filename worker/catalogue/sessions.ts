import { MAX_SESSIONS, type Session } from "../../protocol/sessions.ts";
import { Table } from "./table.ts";

export interface SessionRow extends Session {
  /** The id of the access key as which it acts. */
  readonly key: string;
}

/** The sessions of the console. Their keys, which say what they may do, are elsewhere. */
export class SessionTable extends Table {
  /**
   * Adds one, and removes what is beyond the newest MAX_SESSIONS of its key, and all that have expired. `isGiven`: its key is of the
   * environment. Another one must be there at this moment: a session that came after the deletion of its key would come to life
   * again if the key were imported. Returns whether it was.
   */
  async add(
    { id, key, createdAt, expiresAt }: SessionRow,
    { isGiven }: { isGiven: boolean },
  ): Promise<boolean> {
    const [added] = await this.batch([
      this.statement`
        INSERT INTO sessions (id, key, createdAt, expiresAt)
        SELECT ${id}, ${key}, ${createdAt}, ${expiresAt}
        WHERE ${isGiven ? 1 : 0} = 1 OR EXISTS (SELECT 1 FROM access_keys WHERE id = ${key})`,
      // By the order in which they came: the clock of a gateway may have been set back.
      this.statement`
        DELETE FROM sessions WHERE key = ${key} AND id NOT IN
          (SELECT id FROM sessions WHERE key = ${key} ORDER BY rowid DESC LIMIT ${MAX_SESSIONS})`,
      this.statement`DELETE FROM sessions WHERE expiresAt <= ${createdAt}`,
    ]);
    return added !== undefined && added.meta.changes > 0;
  }

  /** The session of an id, or null. */
  async find(id: string): Promise<SessionRow | null> {
    return await this.first<SessionRow>`SELECT id, key, createdAt, expiresAt FROM sessions WHERE id = ${id}`;
  }

  /** Those of each of some keys, by its id, that have not expired at a time; newest first. */
  async ofKeys(keys: readonly string[], now: number): Promise<ReadonlyMap<string, Session[]>> {
    if (keys.length === 0) return new Map();
    const rows = await this.all<SessionRow>`
      SELECT id, key, createdAt, expiresAt FROM sessions
      WHERE key IN (SELECT value FROM json_each(${JSON.stringify(keys)})) AND expiresAt > ${now}
      ORDER BY rowid DESC`;
    const found = new Map<string, Session[]>();
    for (const { key, ...session } of rows) found.set(key, [...(found.get(key) ?? []), session]);
    return found;
  }

  /** Whether there was one to remove. `of`: of this key alone. */
  async remove(id: string, { of }: { of?: string | undefined } = {}): Promise<boolean> {
    const removed = await this
      .run`DELETE FROM sessions WHERE id = ${id} AND key = coalesce(${of ?? null}, key)`;
    return removed > 0;
  }
}
