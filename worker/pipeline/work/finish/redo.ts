import type { JobContext, PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { endStep } from "../guards.ts";

/** Runs a datum again: its result was dropped since it was counted as done, or its content is gone. */
export function redoDatum(
  { ledger, memory }: PipelineContext,
  oldest: JobContext,
  datum: { readonly id: string; readonly key: string },
): void {
  const { n } = oldest.job;
  endStep(ledger, oldest, () => {
    if (!ledger.jobs.setCommitting(n, null)) return;
    ledger.results.drop(datum.id);
    ledger.datums.replace(datum.key, n);
    ledger.attempts.redo(n, datum);
    ledger.ending.set(n, { step: "clear" });
  });
  memory.queued.wake();
}

/**
 * The content that the commit puts to a path is gone: does again what made it, a merge or a datum. Returns false if
 * that is not known.
 */
export function redoContent(context: PipelineContext, oldest: JobContext, path: string): boolean {
  const { ledger } = context;
  const put = ledger.operations.put(path);
  if (put?.merge) {
    redoMerge(ledger, oldest, { path, merge: put.merge });
    return true;
  }
  const [part = ledger.changed.firstPart(path)] = ledger.changed.parts(path, { after: null, limit: 1 });
  const datum = part && ledger.datums.at(part.key, oldest.job.n);
  if (datum) redoDatum(context, oldest, datum);
  return datum !== undefined;
}

function redoMerge(
  ledger: Ledger,
  oldest: JobContext,
  { path, merge }: { path: string; merge: string },
): void {
  const { n } = oldest.job;
  endStep(ledger, oldest, () => {
    if (!ledger.jobs.setCommitting(n, null)) return;
    ledger.merges.drop(merge);
    ledger.operations.set(path, { state: "waits" });
    ledger.ending.set(n, { step: "plan" });
  });
}
