import type { JobContext, Parts } from "./parts.ts";

/** How a job ends; recorded once, and only while it has not ended. */
export interface End {
  readonly state: "success" | "failure";
  readonly reason: string | null;
  readonly outputCommit: string | null;
}

/** Ends a job in one transaction with `also`, and tells everybody. */
export function endJob(
  { ledger, peers, wakes }: Parts,
  { definition, job, end, also }: JobContext & { end: End; also?: () => void },
): void {
  ledger.step(definition.uid, () => {
    also?.();
    ledger.jobs.end(job.n, { ...end, now: peers.now() });
  });
  wakes.ended(job.id);
  wakes.outbox();
}
