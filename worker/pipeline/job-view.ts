import type { Job } from "../../protocol/pipelines.ts";
import { ALL_CARRIED, type JobRow } from "./jobs.ts";
import type { Ledger } from "./ledger.ts";

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

/** Why a job has not ended yet, in words; null where it is simply being worked on. */
export async function waitingReason(
  job: JobRow,
  {
    ledger,
    front,
    liveNodes,
  }: { ledger: Ledger; front: JobRow | undefined; liveNodes: () => Promise<number> },
): Promise<string | null> {
  if (job.finishedAt !== null) return job.reason;
  if (front && front.n < job.n) return `behind job ${front.id}`;
  if (job.state === "starting") return "its datums are being worked out";
  const isMerging = job.state === "running" && ledger.tasks.has(job.n);
  const needsRunner = job.open > 0 || isMerging || job.state === "egressing";
  const isAtWork = ledger.attempts.hasRunning() || ledger.tasks.nextExpiry() !== undefined;
  if (needsRunner && !isAtWork && (await liveNodes()) === 0)
    return "no live runner: start one with `sluice runner`";
  if (job.open > 0) return null;
  if (job.state === "egressing") return pushText(job, ledger);
  return isMerging
    ? "what several datums wrote to one path is being put together"
    : "its output is being committed";
}

function pushText({ n }: JobRow, { pipeline, tasks }: Ledger): string {
  const { egress } = pipeline.definition()?.spec ?? {};
  const fault = tasks.pushFault(n);
  const again = fault === undefined ? "" : `, tried again after: ${fault}`;
  return egress ? `its output is being pushed to ${egress.URL}${again}` : "its egress is being ended";
}
