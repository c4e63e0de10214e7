import { type PipelineContext, yieldToOthers } from "../context.ts";

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
