import type { Tx } from "../../../objects/transaction.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition } from "../../lifecycle/definition.ts";
import { finishStep } from "../finish/advance.ts";
import { callOffAttempts, endEarly } from "../jobs/end.ts";

/** Jobs ended, and rows removed, in one transaction. */
const SLICE = 200;

/**
 * Ends every job that has not ended, for a pipeline that makes none meanwhile. A job whose output may have been
 * committed is brought to its end first: it must not say `killed` of what is in the branch.
 */
export async function endAllJobs(
  context: PipelineContext,
  { definition, reason }: { definition: Definition; reason: string },
): Promise<void> {
  const { ledger } = context;
  // The loop that ends jobs comes to rest, as the pipeline does not run any more: two must not commit at once.
  await context.engine.resting("jobs");
  for (let job = ledger.jobs.committing(); job; job = ledger.jobs.committing()) {
    if (!(await finishStep(context, { definition, job }))) break;
    await yieldToOthers();
  }
  for (let more = true; more; ) {
    more = ledger.transaction((tx) => endSome(tx, context, reason));
    if (more) await yieldToOthers();
  }
  await callOffAttempts(context);
  while (ledger.transaction(() => dropFill(ledger))) await yieldToOthers();
}

/** Returns whether there were any. */
function endSome(tx: Tx, context: PipelineContext, reason: string): boolean {
  const { jobs, pipeline } = context.ledger;
  const ended = jobs
    .unfinished(SLICE)
    .filter((job) => endEarly(tx, context, { job, state: "killed", reason }));
  if (ended.length > 0) pipeline.setWholeJobDue(1);
  return ended.length > 0;
}

/**
 * The next job reads its inputs whole, so nothing builds upon datums that were being worked out. That job is due even
 * if the only such jobs had been stopped before. Returns whether there may be more.
 */
function dropFill({ jobs, pipeline, touched }: Ledger): boolean {
  const unfilled = jobs.unfilled(SLICE);
  if (unfilled.length === 0) return false;
  pipeline.setWholeJobDue(1);
  for (const { n } of unfilled) {
    // One that has many paths takes several slices.
    if (touched.clear(n, SLICE)) return true;
    jobs.setFilled(n);
  }
  return true;
}
