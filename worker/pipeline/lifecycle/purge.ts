import { type PipelineContext, yieldToOthers } from "../context.ts";

/** Rows removed in one transaction. */
const SLICE = 1000;

/** Tables that belong to one life of a pipeline, and their primary keys. */
const TABLES: readonly (readonly [table: string, key: string])[] = [
  ["revisions", "revision"],
  ["sources", "source"],
  ["jobs", "n"],
  ["touched", "job, stage, input, path"],
  ["elements", "input, path, born"],
  ["datums", "key, born"],
  ["attempts", "job, id"],
  ["results", "id, salt"],
  ["outputs", "id, salt, path"],
  ["published", "path, key"],
  ["ending", "one"],
  ["changed", "path, key"],
  ["operations", "path"],
  ["merges", "id"],
  ["tasks", "id"],
  ["egress_pending", "path"],
  ["egress_moved", "one"],
  ["made", "path, born, key"],
  ["sizes", "input"],
  ["slots", "worker"],
  ["log_chunks", "seq"],
  ["log_datums", "job, datum"],
  ["log_store", "one"],
];

/** Removes the rows of a deleted pipeline in slices; only its tombstone stays. Does nothing to a pipeline that is there. */
export async function purge({ ledger }: PipelineContext): Promise<void> {
  for (const [table, key] of TABLES) {
    for (let more = true; more; ) {
      more = ledger.transaction(() => {
        if (ledger.pipeline.row()?.state !== "purging") return false;
        const select = `SELECT ${key} FROM ${table} LIMIT ${SLICE}`;
        return (
          ledger.sql.query(`DELETE FROM ${table} WHERE (${key}) IN (${select}) RETURNING 1`, []).length ===
          SLICE
        );
      });
      if (more) await yieldToOthers();
    }
  }
  ledger.transaction(() => {
    if (ledger.pipeline.row()?.state === "purging") ledger.pipeline.setState("deleted");
  });
}
