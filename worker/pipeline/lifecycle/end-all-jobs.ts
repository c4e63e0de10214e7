import type { Tx } from "../../sqlite/transaction.ts";
import { type PipelineContext, yieldToOthers } from "../context.ts";
import type { Definition } from "../definition.ts";
import { finishStep } from "../finish/advance.ts";
import { callOffAttempts, endEarly } from "../jobs/end.ts";

/** Jobs ended, and rows removed, in one transaction. */
const SLICE = 200;

/**
 * Ends every job that has not ended, for a pipeline that makes none meanwhile. A job whose output may have been
 * committed ends by that first. Jobs outlive what ended them in the catalogue, so they are told of in the end.
 */
export async function endAllJobs(
  parts: PipelineContext,
  { definition, reason }: { definition: Definition; reason: string },
): Promise<void> {
  const { ledger } = parts;
  // Whoever began the commit lets go of it, as the pipeline does not run any more.
  await parts.advanceRests();
  for (let job = ledger.jobs.committing(); job; job = ledger.jobs.committing()) {
    if (!(await finishStep(parts, { definition, job }))) break;
  }
  for (let more = true; more; ) {
    more = ledger.transaction((tx) => endSome(tx, parts, reason));
    if (more) await yieldToOthers();
  }
  await callOffAttempts(parts);
  while (ledger.transaction(() => dropFill(parts))) await yieldToOthers();
}

/** Ends some of them; whether there were any. */
function endSome(tx: Tx, parts: PipelineContext, reason: string): boolean {
  const { jobs, pipeline } = parts.ledger;
  const ended = jobs.unfinished(SLICE).filter((job) => endEarly(tx, parts, { job, state: "killed", reason }));
  if (ended.length > 0) pipeline.setWholeJobDue(1);
  return ended.length > 0;
}

/**
 * The next job reads its inputs whole, so nothing builds upon datums that were being worked out. It is owed also where
 * the only such jobs had been stopped before.
 */
function dropFill({ ledger }: PipelineContext): boolean {
  const [job] = ledger.jobs.unfilled(1);
  if (!job) return false;
  ledger.pipeline.setWholeJobDue(1);
  if (!ledger.touched.clear(job.n, SLICE)) ledger.jobs.setFilled(job.n);
  return true;
}
