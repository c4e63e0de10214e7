import type { Sql } from "./sql.ts";

export interface DatumRow {
  readonly id: string;
  readonly key: string;
  /** Whose result counts for it: the salt of the specification when it was born. */
  readonly salt: string;
}

/** A place in a walk over births or deaths. */
export interface ChangeCursor {
  readonly job: number;
  readonly key: string;
}

/** The last text in byte order: a walk that begins after a job seeks past all of that job's rows. */
const LAST_KEY = "\u{10ffff}";

/** Where a walk over what came after a job begins. */
export function afterJob(job: number): ChangeCursor {
  return { job, key: LAST_KEY };
}

/** The datum set, by births and deaths: at any job it is the cross product of what was alive then. */
export class DatumStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  bear({ id, key, salt }: DatumRow, job: number): void {
    this.#sql.run`
      INSERT INTO datums (key, born, died, id, salt) VALUES (${key}, ${job}, NULL, ${id}, ${salt})`;
  }

  /** Whether there was something to kill. */
  kill(key: string, job: number): boolean {
    return (
      this.#sql.first`
        UPDATE datums INDEXED BY datums_alive SET died = ${job} WHERE key = ${key} AND died IS NULL
        RETURNING key` !== undefined
    );
  }

  /** Ends the lives of some that were alive before a job; answers of how many. */
  killSome(job: number, limit: number): number {
    return this.#sql.all`
      UPDATE datums SET died = ${job} WHERE (key, born) IN (
        SELECT key, born FROM datums INDEXED BY datums_alive WHERE died IS NULL LIMIT ${limit})
      RETURNING 1`.length;
  }

  /** Whether a datum belongs to a job. */
  aliveAt(id: string, job: number): boolean {
    return this.saltAt(id, job) !== undefined;
  }

  /** The salt of a datum that belongs to a job; undefined where none of that id does. */
  saltAt(id: string, job: number): string | undefined {
    const row = this.#sql.first<{ died: number | null; salt: string }>`
      SELECT died, salt FROM datums WHERE id = ${id} AND born <= ${job} ORDER BY born DESC LIMIT 1`;
    return row && (row.died === null || row.died > job) ? row.salt : undefined;
  }

  /** Datums that belong to a job, by key, after one; from the first for null. Of a job long past, those that still live. */
  ofJob(job: number, { after, limit }: { after: string | null; limit: number }): DatumRow[] {
    // The key of the root alone is the empty text.
    const first = after === null ? 1 : 0;
    return this.#sql.all<DatumRow>`
      SELECT id, key, salt FROM datums
      WHERE key >= ${after ?? ""} AND (${first} OR key > ${after}) AND born <= ${job} AND (died IS NULL OR died > ${job})
      ORDER BY key LIMIT ${limit}`;
  }

  /** Removes some that died at a job or before; answers whether there may be more. */
  trim(job: number, limit: number): boolean {
    return (
      this.#sql.all`
        DELETE FROM datums WHERE (key, born) IN (
          SELECT key, born FROM datums INDEXED BY datums_by_died
          WHERE died IS NOT NULL AND died <= ${job} ORDER BY died, key LIMIT ${limit})
        RETURNING 1`.length === limit
    );
  }

  keyOf(id: string): string | undefined {
    return this.#sql.first<{
      key: string;
    }>`SELECT key FROM datums WHERE id = ${id} ORDER BY born DESC LIMIT 1`?.key;
  }

  /** Datums of job `to` that job `from` did not have, in order of birth. */
  born(
    { from, to }: { from: number; to: number },
    page: { after: ChangeCursor; limit: number },
  ): (DatumRow & ChangeCursor)[] {
    return this.#sql.all<DatumRow & ChangeCursor>`
      SELECT id, key, salt, born AS job FROM datums
      WHERE (born, key) > (${page.after.job}, ${page.after.key}) AND born <= ${to} AND +born > ${from}
        AND (died IS NULL OR died > ${to})
      ORDER BY born, key LIMIT ${page.limit}`;
  }

  /** Datums of job `from` that job `to` does not have, in order of death. */
  died(
    { from, to }: { from: number; to: number },
    page: { after: ChangeCursor; limit: number },
  ): (DatumRow & ChangeCursor)[] {
    return this.#sql.all<DatumRow & ChangeCursor>`
      SELECT id, key, salt, died AS job FROM datums
      WHERE died IS NOT NULL AND (died, key) > (${page.after.job}, ${page.after.key}) AND died <= ${to}
        AND +died > ${from} AND born <= ${from}
      ORDER BY died, key LIMIT ${page.limit}`;
  }
}
