import { headCommit } from "./position.ts";

export interface Generation {
  readonly [column: string]: SqlStorageValue;
  readonly gen: number;
  readonly uid: string;
  readonly created_at: number;
  readonly deleted_at: number | null;
}

const COLUMNS = "gen, uid, created_at, deleted_at";

/** The newest generation, deleted or not; null where the branch never was. */
export function newestGeneration(sql: SqlStorage): Generation | null {
  return sql.exec<Generation>(`SELECT ${COLUMNS} FROM generations ORDER BY gen DESC LIMIT 1`).toArray()[0] ?? null;
}

/** Begins a generation behind all earlier ones. */
export function beginGeneration(sql: SqlStorage, uid: string, now: number): Generation {
  return sql
    .exec<Generation>(
      `INSERT INTO generations (gen, uid, created_at)
       SELECT COALESCE(MAX(gen), 0) + 1, ?, ? FROM generations RETURNING ${COLUMNS}`,
      uid,
      now,
    )
    .one();
}

/** Ends a generation; the end is an event of the feed, behind its last commit. */
export function endGeneration(sql: SqlStorage, gen: number, { id, now }: { id: string; now: number }): void {
  sql.exec(
    "UPDATE generations SET deleted_at = ?, deleted_seq = ?, deletion_id = ? WHERE gen = ?",
    now,
    (headCommit(sql, gen)?.seq ?? 0) + 1,
    id,
    gen,
  );
}

/** What the catalogue is told: grows with each creation and each deletion. */
export function catalogueVersion({ gen, deleted_at }: Generation): number {
  return gen * 2 - (deleted_at === null ? 1 : 0);
}
