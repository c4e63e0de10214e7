import { type JobContext, type PipelineContext, yieldToOthers } from "../context.ts";
import { type JobEnd, type JobRow, skippedOf } from "./job-store.ts";

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

/**
 * Ends the front where its time is over, and sets the timer for when that will be. The time counts from the job's
 * turn on: its datums are known and every earlier job has ended, so that no job fails for having waited.
 */
export function checkJobTime(parts: PipelineContext, now: number): void {
  const { ledger } = parts;
  const definition = ledger.active();
  const job = definition && ledger.jobs.front();
  const due = job && dueOf(job, definition.jobTimeoutMs);
  const over = due !== undefined && due <= now;
  ledger.timers.set("jobs", over ? undefined : due);
  if (!job || !over) return;
  const reason = `the job ran longer than ${definition.spec.jobTimeout} (jobTimeout)`;
  if (ledger.transaction(() => cutShort(parts, { job, state: "failure", reason }))) tellOfCut(parts, job.id);
}

function dueOf({ turnAt }: JobRow, timeoutMs: number | null): number | undefined {
  return turnAt === null || timeoutMs === null ? undefined : turnAt + timeoutMs;
}

/** Attempts looked at in one transaction. */
const SLICE = 1000;

/**
 * Calls off the attempts of jobs that ended before their time, in slices. Their leases are lost already, as their job
 * has ended; from here on later jobs can have their datums.
 */
export async function reapJobs({ ledger, peers, wakes }: PipelineContext): Promise<void> {
  for (;;) {
    const [n] = ledger.exists ? ledger.jobs.reaping(1) : [];
    if (n === undefined) return;
    for (let after: string | null = ""; after !== null; ) {
      const from: string = after;
      after = ledger.transaction(() => {
        const next = ledger.attempts.callOff(n, { after: from, limit: SLICE, now: peers.now() });
        if (next === null) ledger.jobs.setReaped(n);
        return next;
      });
      wakes.queued();
      await yieldToOthers();
    }
    wakes.front();
  }
}
