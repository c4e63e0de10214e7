export interface Writer {
  readonly [column: string]: SqlStorageValue;
  /** Empty where nobody has the branch. */
  readonly uid: string;
  readonly pipeline: string;
  readonly epoch: number;
}

/** The pipeline whose output the branch is, or null. */
export function writerOf(sql: SqlStorage): Writer | null {
  const row = sql.exec<Writer>("SELECT uid, pipeline, epoch FROM writer").toArray()[0];
  return row && row.uid !== "" ? row : null;
}

/** Takes the branch: an epoch higher than every earlier one. */
export function takeWriter(sql: SqlStorage, { uid, pipeline }: { uid: string; pipeline: string }): number {
  return sql
    .exec<{ epoch: number }>(
      `INSERT INTO writer (one, uid, pipeline, epoch) VALUES (1, ?, ?, 1)
       ON CONFLICT (one) DO UPDATE SET uid = excluded.uid, pipeline = excluded.pipeline, epoch = epoch + 1
       RETURNING epoch`,
      uid,
      pipeline,
    )
    .one().epoch;
}

/** Gives the branch up, if this pipeline has it. */
export function releaseWriter(sql: SqlStorage, uid: string): boolean {
  return sql.exec("UPDATE writer SET uid = '', epoch = epoch + 1 WHERE uid = ? RETURNING 1", uid).toArray().length > 0;
}
