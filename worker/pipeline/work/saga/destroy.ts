import { type BranchAddress, bucketName } from "../../../../protocol/names.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { pipelineMarker } from "../../lifecycle/definition.ts";
import { flushPage, pipelineRecord } from "../catalogue.ts";
import { whileIn } from "../guards.ts";
import { releaseErrors } from "./propose.ts";
import { endAllJobs } from "./stop-start.ts";

/** Rows removed in one transaction. */
const SLICE = 1000;

/** Tables that outlive a pipeline: its tombstone, what the catalogue may have of it, and that the database is to be written anew. */
const STAY: readonly string[] = ["family", "pipeline", "proposals", "erased_jobs", "rewrite"];

/** From here on nothing is leased and no event makes a job. Returns false if there is no pipeline. */
export function beginDestruction(ledger: Ledger, { keepOutput }: { keepOutput: boolean }): boolean {
  return ledger.transaction(() => {
    const state = ledger.pipeline.row()?.state;
    if (state === "deleting") return true;
    if (state === undefined || state === "purging" || state === "deleted") return false;
    ledger.pipeline.set({ keepOutput: keepOutput ? 1 : 0 });
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
  for (const source of await subscribedSources(ledger)) await peers.branch(source).feed.unsubscribe({ uid });
  await endAllJobs(context, { definition, reason: "the pipeline was deleted" });
  const destroy = ledger.pipeline.row()?.keepOutput === 0;
  // If the output stays, jobs outlive their pipeline in the catalogue, as its commits tell of them: it is told of their end
  // before the rows go.
  if (!destroy) while (await flushPage(context)) await yieldToOthers();
  await releaseErrors(context, definition, { destroy });
  await peers.branch(output).output.release({ uid, destroy });
  await peers.catalogue.pipelines.record(
    pipelineRecord(ledger, definition, { state: "deleting", deleted: true }),
  );
  await peers.fleet.wake();
  await peers.blobs.delete([pipelineMarker(name)]);
  whileIn(ledger, { uid, state: "deleting", work: () => ledger.pipeline.setState("purging") });
}

/**
 * Those of all versions, each once: an update may not have got to the end of it, and one of a stopped pipeline leaves the
 * commits held that the inputs of the version before start after.
 */
async function subscribedSources({ versions }: Ledger): Promise<readonly BranchAddress[]> {
  const sources = new Map(versions.formerSources().map((source) => [bucketName(source), source]));
  for (let slice = versions.sourcesAfter(0); slice; slice = versions.sourcesAfter(slice.last)) {
    for (const source of slice.sources) sources.set(bucketName(source), source);
    await yieldToOthers();
  }
  return [...sources.values()];
}

/**
 * Removes the rows of a deleted pipeline in slices, and its jobs from the catalogue if their commits went with its output;
 * only its tombstone stays. Does nothing to a pipeline that is there. No pipeline of the name begins before this is done. Its
 * jobs are later than itself, so that those of an earlier one stay, whose output may have been kept. A write of one
 * that is still on its way is refused by the catalogue, which knows of the deletion (catalogue/jobs.ts). Throws if the
 * catalogue can't be reached.
 */
export async function purge({ ledger, peers }: PipelineContext): Promise<void> {
  for (const { table, key } of tablesOfOneLife(ledger)) {
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
  const [pipeline, after] = [ledger.pipeline.name(), ledger.pipeline.uid()];
  const { state, keepOutput } = ledger.pipeline.row() ?? {};
  if (pipeline === undefined || after === undefined || state !== "purging") return;
  if (keepOutput === 0) {
    while (await peers.catalogue.jobs.remove({ pipeline, after })) await yieldToOthers();
  }
  ledger.transaction((tx) => {
    if (ledger.pipeline.row()?.state !== "purging") return;
    ledger.pipeline.setState("deleted");
    ledger.codes.forget();
    if (ledger.erasures.lastJob() === undefined) return;
    ledger.oweRewrite(tx, peers.now());
    ledger.erasures.forgetJobs();
  });
}

/** The others, and their primary keys. */
function tablesOfOneLife({ sql }: Ledger): { table: string; key: string }[] {
  return sql.all<{ table: string; key: string }>`
    SELECT t.name AS "table", group_concat(c.name, ', ') AS key
    FROM sqlite_master AS t, pragma_table_info(t.name) AS c
    WHERE t.type = 'table' AND c.pk > 0 AND substr(t.name, 1, 4) <> '_cf_'
      AND t.name NOT IN (SELECT value FROM json_each(${JSON.stringify(STAY)}))
    GROUP BY t.name`;
}
