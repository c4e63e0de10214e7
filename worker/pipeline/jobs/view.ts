import type { Job } from "../../../protocol/pipelines.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { ALL_CARRIED, type JobRow } from "./job-store.ts";

export interface ViewContext {
  readonly ledger: Ledger;
  /** The oldest job that has not ended. */
  readonly front: JobRow | undefined;
}

/** A job as the control API shows it, without a reason why it waits: its inputs are those of its own version of the pipeline. */
export function viewJob(job: JobRow, { ledger, front }: ViewContext): Job {
  const definition = ledger.pipeline.definitionAt(job.revision);
  if (!definition) throw new Error(`job ${job.id} is of version ${job.revision}, which is not there`);
  return {
    id: job.id,
    pipeline: definition.name,
    state: job.state,
    reason: job.reason,
    inputs: definition.inputs.map(({ name, repo, branch, source }) => ({
      name,
      repo,
      branch,
      commit: job.positions[source]?.commit ?? null,
    })),
    outputCommit: job.outputCommit,
    datums: {
      total: job.total,
      processed: job.processed,
      skipped: skippedOf(job, front),
      failed: job.failed,
    },
    createdAt: job.createdAt,
    startedAt: job.startedAt,
    finishedAt: job.finishedAt,
  };
}

/**
 * For the front, whatever is not open, processed or failed has its result. Behind it only those are known that a
 * job's own new datums skip: what it inherits may still fail in a job before it.
 */
export function skippedOf(job: JobRow, front: JobRow | undefined): number {
  const known = job.finishedAt === null && job.n === front?.n && job.carried === ALL_CARRIED;
  return known ? job.total - job.processed - job.failed - job.open : job.skipped;
}
