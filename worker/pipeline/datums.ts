import type { Sql } from "./sql.ts";

export interface DatumRow {
  readonly id: string;
  readonly key: string;
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

  bear({ id, key }: DatumRow, job: number): void {
    this.#sql.run`INSERT INTO datums (key, born, died, id) VALUES (${key}, ${job}, NULL, ${id})`;
  }

  /** Whether there was something to kill. */
  kill(key: string, job: number): boolean {
    return (
      this.#sql.first`
        UPDATE datums INDEXED BY datums_alive SET died = ${job} WHERE key = ${key} AND died IS NULL
        RETURNING key` !== undefined
    );
  }

  /** Whether a datum belongs to a job. */
  aliveAt(id: string, job: number): boolean {
    const row = this.#sql.first<{ died: number | null }>`
      SELECT died FROM datums WHERE id = ${id} AND born <= ${job} ORDER BY born DESC LIMIT 1`;
    return row !== undefined && (row.died === null || row.died > job);
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
      SELECT id, key, born AS job FROM datums
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
      SELECT id, key, died AS job FROM datums
      WHERE died IS NOT NULL AND (died, key) > (${page.after.job}, ${page.after.key}) AND died <= ${to}
        AND +died > ${from} AND born <= ${from}
      ORDER BY died, key LIMIT ${page.limit}`;
  }
}
