import { type JobContext, type PipelineContext, yieldToOthers } from "../context.ts";
import { endStep } from "../ledger/guards.ts";
import { collectChanges, walkFrom } from "./collect.ts";
import { commitOutput, publishSlice, stagePage } from "./commit.ts";
import type { EndingStep } from "./draft-store.ts";
import { forgetPushes, listPushes, pushOutput } from "./egress.ts";
import { planOperations } from "./plan.ts";
import { redoDatum } from "./redo.ts";

/** Rows of an ending that was given up removed in one transaction. */
const SLICE = 1000;
/** Tasks of one, each with what it was to push. */
const TASKS = 20;

/**
 * One step towards the end of the front, all of whose datums have a result (ending.ts). Each may be done again, and a
 * crash goes on with the one that is written down. False where it can't go on before runners have done something.
 * Throws where a peer can't be reached.
 */
export async function endFront(parts: PipelineContext, context: JobContext): Promise<boolean> {
  const at = stepOf(parts, context);
  switch (at.step) {
    case "clear":
      clear(parts, context);
      break;
    case "died":
    case "born":
      await collect(parts, { ...context, at });
      return true;
    case "plan":
      return planOperations(parts, context);
    case "stage":
      await stagePage(parts, { ...context, after: at.after });
      return true;
    case "commit":
      await commitOutput(parts, { ...context, staged: at.staged });
      return true;
    case "publish":
      publishSlice(parts, context);
      break;
    case "push":
      return pushOutput(parts, context);
    case "forget":
      forgetPushes(parts, context);
      break;
    case "list":
      await listPushes(parts, { ...context, after: at.after });
      return true;
  }
  await yieldToOthers();
  return true;
}

/** What another job left of its end goes first. */
function stepOf({ ledger }: PipelineContext, { job }: JobContext): EndingStep {
  const ending = ledger.ending.get();
  if (!ending) return walkFrom("died", ledger.pipeline.row()?.committed ?? 0);
  return ending.job === job.n ? ending.at : { step: "clear" };
}

function clear({ ledger }: PipelineContext, context: JobContext): void {
  const { changed, operations, tasks, egress, ending, pipeline } = ledger;
  endStep(ledger, context, () => {
    if (changed.take(SLICE).length === SLICE || operations.take(SLICE).length === SLICE) return;
    const left = tasks.some(TASKS);
    for (const { id, kind } of left) {
      if (kind === "egress") egress.release(id);
      tasks.remove(id);
    }
    if (left.length < TASKS) ending.set(context.job.n, walkFrom("died", pipeline.row()?.committed ?? 0));
  });
}

async function collect(parts: PipelineContext, context: Parameters<typeof collectChanges>[1]): Promise<void> {
  const { ledger } = parts;
  const lacking = collectChanges(ledger, context);
  if (lacking) redoDatum(parts, { ...context, datum: lacking });
  else if (ledger.ending.get()?.at.step !== "plan") await yieldToOthers();
}
