import { commitJob } from "./commit-job.ts";
import { endJob } from "./end-job.ts";
import { failureText } from "./failure-text.ts";
import { ALL_CARRIED } from "./jobs.ts";
import { type JobContext, type Parts, yieldToOthers } from "./parts.ts";

/** Failed datums taken over in one transaction. */
const CARRY = 500;

/**
 * Ends jobs in their order. Only the front, the oldest one that has not ended, may end: it takes over what failed in
 * the job before, and once all it has to run is settled, it fails or commits.
 */
export async function settleFront(parts: Parts): Promise<void> {
  const { ledger } = parts;
  for (;;) {
    const definition = ledger.active();
    const job = definition && ledger.jobs.front();
    if (!definition || !job || job.state === "starting") return;
    const context = { definition, job };
    if (job.carried !== ALL_CARRIED) await carry(parts, context);
    else if (job.open > 0) return;
    else if (job.failed > 0) failJob(parts, context);
    else await commitJob(parts, context);
  }
}

/**
 * Datums that the front inherited and that have no result: those that failed in the job before and are still alive.
 * They get rows only now, so that a failed datum costs each later job nothing until it is its turn.
 */
async function carry({ ledger, wakes }: Parts, { definition, job }: JobContext): Promise<void> {
  let after: string | null = null;
  for (let more = true; more; ) {
    ledger.step(definition.uid, () => {
      const failed = ledger.attempts.failed(job.n - 1, { after, limit: CARRY });
      for (const { id, key } of failed) {
        if (ledger.datums.aliveAt(id, job.n) && !ledger.results.has(id))
          ledger.attempts.add(job.n, { id, key });
      }
      after = failed.at(-1)?.key ?? null;
      more = failed.length === CARRY;
      if (!more) ledger.jobs.setCarried(job.n);
    });
    wakes.queued();
    if (ledger.active()?.uid !== definition.uid) return;
    if (more) await yieldToOthers();
  }
  wakes.outbox();
}

function failJob(parts: Parts, context: JobContext): void {
  const { definition, job } = context;
  const [first] = parts.ledger.attempts.failed(job.n, { after: null, limit: 1 });
  const reason = first ? failureText(definition, { first, count: job.failed }) : "a datum failed";
  endJob(parts, { ...context, end: { state: "failure", reason, outputCommit: null } });
}
