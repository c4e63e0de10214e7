/** A moment of one generation: what was there at commit `seq`. `head` is the newest commit of that generation. */
export interface Moment {
  readonly gen: number;
  readonly seq: number;
  readonly head: number;
}

interface CommitRow {
  readonly [column: string]: SqlStorageValue;
  readonly gen: number;
  readonly seq: number;
  readonly id: string;
  readonly created_at: number;
  readonly changes: number;
}

const COMMIT_COLUMNS = "gen, seq, id, created_at, changes";

/** The newest commit of a generation, or null where there is none. */
export function headCommit(sql: SqlStorage, gen: number): CommitRow | null {
  const query = `SELECT ${COMMIT_COLUMNS} FROM commits WHERE gen = ? ORDER BY seq DESC LIMIT 1`;
  return sql.exec<CommitRow>(query, gen).toArray()[0] ?? null;
}

/** The commit of an id, in whatever generation, or null. */
export function commitById(sql: SqlStorage, id: string): CommitRow | null {
  return sql.exec<CommitRow>(`SELECT ${COMMIT_COLUMNS} FROM commits WHERE id = ?`, id).toArray()[0] ?? null;
}

/** How many births and deaths there were after a moment. */
export function changesSince(sql: SqlStorage, { gen, seq }: Moment): number {
  const query = "SELECT changes FROM commits WHERE gen = ? AND seq = ?";
  const then = sql.exec<{ changes: number }>(query, gen, seq).toArray()[0];
  return (headCommit(sql, gen)?.changes ?? 0) - (then?.changes ?? 0);
}

/** The time of the newest commit in the object, of any generation; 0 where there is none. */
export function newestTime(sql: SqlStorage): number {
  const query = "SELECT created_at FROM commits ORDER BY gen DESC, seq DESC LIMIT 1";
  return sql.exec<{ created_at: number }>(query).toArray()[0]?.created_at ?? 0;
}
