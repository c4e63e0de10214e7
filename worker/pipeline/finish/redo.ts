import type { JobContext, PipelineContext } from "../context.ts";
import { endStep } from "../ledger/guards.ts";

/** A result that was dropped since it was counted as done, or whose content is gone, is none: the datum runs again. */
export function redoDatum(
  { ledger, wakes }: PipelineContext,
  context: JobContext & { datum: { id: string; key: string } },
): void {
  const { job, datum } = context;
  endStep(ledger, context, () => {
    if (!ledger.jobs.setCommitting(job.n, 0)) return;
    ledger.results.drop(datum.id);
    ledger.datums.replace(datum.key, job.n);
    ledger.attempts.redo(job.n, datum);
    ledger.ending.set(job.n, { step: "clear" });
  });
  wakes.queued();
}

/** The content that the commit puts to a path is gone: what made it, a merge or a datum, is done again. False where that is not known. */
export function redoContent(parts: PipelineContext, context: JobContext & { path: string }): boolean {
  const { ledger } = parts;
  const { job, path } = context;
  const put = ledger.operations.put(path);
  if (put?.merge) {
    redoMerge(parts, { ...context, merge: put.merge });
    return true;
  }
  const [part = ledger.changed.firstPart(path)] = ledger.changed.parts(path, { after: null, limit: 1 });
  const datum = part && ledger.datums.at(part.key, job.n);
  if (datum) redoDatum(parts, { ...context, datum });
  return datum !== undefined;
}

function redoMerge({ ledger }: PipelineContext, context: JobContext & { path: string; merge: string }): void {
  const { job, path, merge } = context;
  endStep(ledger, context, () => {
    if (!ledger.jobs.setCommitting(job.n, 0)) return;
    ledger.merges.drop(merge);
    ledger.operations.set(path, { state: "waits" });
    ledger.ending.set(job.n, { step: "plan" });
  });
}
