import type { Tx } from "../../../objects/transaction.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { JobContext, Memory, PipelineContext } from "../../context.ts";
import { type JobEnd, type JobRow, skippedOf } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";

/** Attempts looked at in one transaction. */
const SLICE = 1000;

interface End {
  readonly job: JobRow;
  readonly state: JobEnd["state"];
  readonly reason: string | null;
}

/** Ends the oldest job, which has come to its end, and announces that. Does nothing to one that has ended. */
export function endOldest(
  _: Tx,
  { ledger, peers, memory }: PipelineContext,
  { job, state, reason }: End,
): void {
  const current = ledger.jobs.get(job.n);
  if (current?.finishedAt !== null) return;
  // A datum that was neither processed nor failed had its result before.
  const skipped = current.total - current.processed - current.failed;
  ledger.jobs.end(job.n, { state, reason, skipped, now: peers.now() });
  announceEnd(memory, job);
}

/** Fails the oldest job: its datums did, or its output can't be committed. */
export function failOldest(context: PipelineContext, { definition, job }: JobContext, reason: string): void {
  context.ledger.endingStep(definition, (tx) => endOldest(tx, context, { job, state: "failure", reason }));
}

/**
 * Ends any job before its time and announces that: what it runs loses its lease, what it queued goes. Its datums stay
 * in the set, so the next job that has them runs those without a result. What it committed stays. Returns false if it
 * is too late: the job has ended, or its output is being committed.
 */
export function endEarly(
  _: Tx,
  { ledger, peers, memory }: PipelineContext,
  { job, state, reason }: End,
): boolean {
  if (job.committing === 1) return false;
  const skipped = skippedOf(job, ledger.jobs.oldest());
  if (!ledger.jobs.end(job.n, { state, reason, skipped, now: peers.now() })) return false;
  announceEnd(memory, job);
  memory.queued.wake();
  return true;
}

function announceEnd({ ended, logged }: Memory, { id }: JobRow): void {
  ended.wake(id);
  logged.wake(id);
}

/** Stops one job, whatever state it is in. */
export function stopJob(
  tx: Tx,
  context: PipelineContext,
  id: string,
): "stopped" | "was-stopped" | "no-such-job" | "job-ended" | "job-ending" {
  const job = context.ledger.jobs.byId(id);
  if (!job) return "no-such-job";
  if (job.state === "killed") return "was-stopped";
  if (job.finishedAt !== null) return "job-ended";
  return endEarly(tx, context, { job, state: "killed", reason: "it was stopped" }) ? "stopped" : "job-ending";
}

/**
 * When the time of the oldest job is over; undefined: never. It counts from the job's turn on: its datums are known and every
 * earlier job has ended, so that no job fails for having waited. A job whose output is being committed has no time.
 */
export function overdueAt(ledger: Ledger): number | undefined {
  const timeoutMs = ledger.active()?.jobTimeoutMs ?? null;
  const job = timeoutMs === null ? undefined : ledger.jobs.oldest();
  if (timeoutMs === null || !job || job.turnAt === null || job.committing === 1) return undefined;
  return job.turnAt + timeoutMs;
}

/** Ends the oldest job if its time is over. */
export function endOverdue(context: PipelineContext, now: number): boolean {
  const { ledger } = context;
  const due = overdueAt(ledger);
  if (due === undefined || due > now) return false;
  return ledger.transaction((tx) => {
    const job = ledger.jobs.oldest();
    const reason = `the job ran longer than ${ledger.active()?.spec.jobTimeout} (jobTimeout)`;
    return job !== undefined && endEarly(tx, context, { job, state: "failure", reason });
  });
}

/**
 * Calls off the attempts of jobs that ended before their time, in slices. Their leases are lost already, as their job
 * has ended; from here on later jobs can have their datums.
 */
export async function callOffAttempts({ ledger, peers, memory }: PipelineContext): Promise<void> {
  for (;;) {
    const [n] = ledger.exists ? ledger.jobs.toCallOff(1) : [];
    if (n === undefined) return;
    for (let after: string | null = ""; after !== null; ) {
      const from: string = after;
      after = ledger.transaction(() => {
        const next = ledger.attempts.callOff(n, { after: from, limit: SLICE, now: peers.now() });
        if (next === null) ledger.jobs.setCalledOff(n);
        return next;
      });
      memory.queued.wake();
      await yieldToOthers();
    }
  }
}
