import type { JobContext, PipelineContext } from "../context.ts";
import type { JobEnd, JobRow } from "./job-store.ts";
import { skippedOf } from "./view.ts";

/** How a job ends that was let run to its end. */
export interface End {
  readonly state: "success" | "failure";
  readonly reason: string | null;
}

/** Ends the front, recorded once; tells everybody. */
export function endJob(parts: PipelineContext, { definition, job, end }: JobContext & { end: End }): void {
  const { ledger } = parts;
  const ended = ledger.endingStep(definition, () => endNow(parts, { job, end }));
  if (ended) tellOfEnd(parts, job.id);
}

/** Ends the front; false where it has ended. To be called in a transaction; `tellOfEnd` comes after it. */
export function endNow({ ledger, peers }: PipelineContext, { job, end }: { job: JobRow; end: End }): boolean {
  const current = ledger.jobs.get(job.n);
  if (current?.finishedAt !== null) return false;
  // Whatever has been neither processed nor failed had its result.
  const skipped = current.total - current.processed - current.failed;
  return ledger.jobs.end(job.n, { ...end, skipped, now: peers.now() });
}

/** Wakes whoever waited for the end of the front. */
export function tellOfEnd({ wakes }: PipelineContext, job: string): void {
  wakes.ended(job);
  wakes.outbox();
  wakes.trim();
}

/**
 * Ends a job before its time, whichever place it has: what it runs loses its lease, what it queued goes. Its datums
 * stay in the set, so that the next job that has them runs those without a result. False where it is too late: it has
 * ended, or its output is being committed. What was committed stays. To be called in a transaction; `tellOfCut` comes after it.
 */
export function cutShort(
  { ledger, peers }: PipelineContext,
  { job, state, reason }: { job: JobRow; state: Exclude<JobEnd["state"], "success">; reason: string },
): boolean {
  if (job.committing === 1) return false;
  const skipped = skippedOf(job, ledger.jobs.front());
  return ledger.jobs.end(job.n, { state, reason, skipped, now: peers.now() });
}

/** Stops one job, whatever state it is in. To be called in a transaction. */
export function stopJob(
  parts: PipelineContext,
  id: string,
): "stopped" | "was-stopped" | "no-such-job" | "job-ended" | "job-ending" {
  const job = parts.ledger.jobs.byId(id);
  if (!job) return "no-such-job";
  if (job.state === "killed") return "was-stopped";
  if (job.finishedAt !== null) return "job-ended";
  return cutShort(parts, { job, state: "killed", reason: "it was stopped" }) ? "stopped" : "job-ending";
}

/** Wakes whoever has to do with a job that was cut short. */
export function tellOfCut({ wakes }: PipelineContext, job: string): void {
  wakes.ended(job);
  wakes.outbox();
  wakes.reap();
  wakes.front();
  wakes.queued();
}
