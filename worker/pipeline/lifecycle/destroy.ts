import type { BranchAddress } from "../../../protocol/names.ts";
import { yieldToOthers } from "../../sqlite/turns.ts";
import type { PipelineContext, Uses } from "../context.ts";
import { markerName } from "../definition.ts";
import { flushPage, pipelineRecord } from "../engine/catalogue-outbox.ts";
import { whileIn } from "../ledger/guards.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { endAllJobs } from "./end-all-jobs.ts";
import { releaseErrors } from "./errors-branch.ts";

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
  ["lost_leases", "lease"],
  ["codes", "number"],
  ["bad_datums", "id"],
  ["error_changes", "id"],
  ["errors_claim", "one"],
  ["last_retry", "one"],
];

/** From here on nothing is leased and no event makes a job. Returns false if there is no pipeline. */
export function beginDestruction(
  ledger: Pick<Ledger, "transaction" | "pipeline">,
  { keepOutput }: { keepOutput: boolean },
): boolean {
  return ledger.transaction(() => {
    const state = ledger.pipeline.row()?.state;
    if (state === "deleting") return true;
    if (state === undefined || state === "purging" || state === "deleted") return false;
    ledger.pipeline.setKeepOutput(keepOutput ? 1 : 0);
    ledger.pipeline.setState("deleting");
    return true;
  });
}

/** Rolls a deletion forward. Throws if a peer can't be reached. */
export async function continueDestruction(context: PipelineContext): Promise<void> {
  const { ledger, peers } = context;
  const definition = ledger.pipeline.definition();
  if (!definition || ledger.pipeline.row()?.state !== "deleting") return;
  const { uid, name, output } = definition;
  for (const source of subscribedSources(ledger)) await peers.branch(source).unsubscribe({ uid });
  await endAllJobs(context, { definition, reason: "the pipeline was deleted" });
  // Jobs outlive their pipeline in the catalogue: it is told of their end before the rows go.
  while (await flushPage(context)) await yieldToOthers();
  const destroy = ledger.pipeline.row()?.keepOutput === 0;
  await releaseErrors(context, definition, { destroy });
  await peers.branch(output).release({ uid, destroy });
  await peers.catalogue.pipelines.record(
    pipelineRecord(ledger, { definition, state: "deleting", deleted: true }),
  );
  await peers.blobs.delete([markerName(name)]);
  whileIn(ledger, { uid, state: "deleting", work: () => ledger.pipeline.setState("purging") });
}

/** Those of this version and of the one before: an update may not have got to the end of it. */
function subscribedSources({ pipeline }: Pick<Ledger, "pipeline">): readonly BranchAddress[] {
  const present = pipeline.definition();
  const before = present && pipeline.definitionAt(present.revision - 1);
  return [...(present?.sources ?? []), ...(before?.sources ?? [])];
}

/** Removes the rows of a deleted pipeline in slices; only its tombstone stays. Does nothing to a pipeline that is there. */
export async function purge({ ledger }: Uses<"transaction" | "pipeline" | "codes" | "sql">): Promise<void> {
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
    if (ledger.pipeline.row()?.state !== "purging") return;
    ledger.pipeline.setState("deleted");
    ledger.codes.forget();
  });
}
