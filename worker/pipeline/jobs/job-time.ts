import type { PipelineContext } from "../context.ts";
import { cutShort, tellOfCut } from "./end.ts";
import type { JobRow } from "./job-store.ts";

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
