import type { JobContext, PipelineContext } from "../context.ts";
import { endNow, tellOfEnd } from "../jobs/end.ts";
import { endStep } from "../ledger/job-steps.ts";

/** Rows moved in one transaction. */
const SLICE = 500;

/**
 * One slice of what follows from the commit: what is published, and what the external store lacks by it. The next job
 * builds upon that, so only then can this one end. `commit`: the commit was made just now.
 */
export function publishSlice(parts: PipelineContext, context: JobContext & { commit?: string | null }): void {
  const { ledger, wakes } = parts;
  const { job, definition, commit } = context;
  const { egress } = definition.spec;
  const left = endStep(ledger, context, () => {
    if (commit !== undefined) {
      ledger.jobs.setCommitted(job.n, commit);
      ledger.ending.set(job.n, { step: "publish" });
    }
    if (publishSome() || addPushes()) return "more";
    ledger.pipeline.setCommitted(job.n);
    if (ledger.egress.hasMoved || (egress && ledger.egress.isPending())) {
      ledger.jobs.setEgressing(job.n);
      ledger.ending.set(job.n, { step: "push" });
      return "pushes";
    }
    ledger.ending.remove();
    endNow(parts, { job, end: { state: "success", reason: null } });
    return "nothing";
  });
  if (left === "nothing") tellOfEnd(parts, job.id);
  else wakes.outbox();

  /** Answers whether there is more. */
  function publishSome(): boolean {
    const rows = ledger.changed.take(SLICE);
    for (const row of rows) {
      if (row.id === null) ledger.published.remove(row);
      else ledger.published.add(row);
    }
    return rows.length === SLICE;
  }

  /** Answers whether there is more. Where results go elsewhere by now, everything is pushed there anyway. */
  function addPushes(): boolean {
    const rows = ledger.operations.take(SLICE);
    for (const { operation } of rows) {
      if (!egress || !operation || ledger.egress.hasMoved) continue;
      if ("delete" in operation) ledger.egress.add({ path: operation.delete, content: null });
      else ledger.egress.add({ path: operation.put, content: operation });
    }
    return rows.length === SLICE;
  }
}
