import type { Sql } from "../../sqlite/sql.ts";

/** The pipeline whose output the branch is. */
interface Writer {
  readonly uid: string;
  readonly pipeline: string;
  /** Grows with each claim: who holds an earlier one has lost it. */
  readonly epoch: number;
}

interface StoredRow {
  readonly epoch: number;
  readonly uid: string | null;
  readonly pipeline: string | null;
}

/** Who may write to the branch, where not everybody. Kept in memory, as each commit asks. */
export class WriterStore {
  readonly #sql: Sql;
  #writer: Writer | null | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get(): Writer | null {
    if (this.#writer === undefined) {
      const row = this.#sql.first<StoredRow>`SELECT epoch, uid, pipeline FROM writer WHERE one = 1`;
      this.#writer = named(row);
    }
    return this.#writer;
  }

  /** Answers the new epoch. */
  claim({ uid, pipeline }: { uid: string; pipeline: string }): number {
    const row = this.#sql.first<{ epoch: number }>`
      UPDATE writer SET epoch = epoch + 1, uid = ${uid}, pipeline = ${pipeline} WHERE one = 1 RETURNING epoch`;
    this.forget();
    return row?.epoch ?? 0;
  }

  release(): void {
    this.#sql.run`UPDATE writer SET uid = NULL, pipeline = NULL WHERE one = 1`;
    this.forget();
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#writer = undefined;
  }
}

function named(row: StoredRow | undefined): Writer | null {
  if (!row || row.uid === null || row.pipeline === null) return null;
  return { uid: row.uid, pipeline: row.pipeline, epoch: row.epoch };
}
