import { type JobContext, type PipelineContext, yieldToOthers } from "../context.ts";
import { endJob } from "../jobs/end.ts";
import { ALL_CARRIED } from "../jobs/job-store.ts";
import { runningStep } from "../ledger/guards.ts";
import { failureText } from "./reasons.ts";
import { endFront } from "./steps.ts";

/** Failed datums taken over in one transaction. */
const CARRY = 500;
/** Jobs that were cut short looked back at before other calls get their turn. */
const JOBS_PER_TURN = 50;

/**
 * Ends jobs in their order. Only the front, the oldest one that has not ended, may end: it takes over what failed in
 * the job before, and once all it has to run is settled, it fails or commits.
 */
export async function settleFront(parts: PipelineContext): Promise<void> {
  const { ledger } = parts;
  for (;;) {
    const definition = ledger.active();
    const job = definition && ledger.jobs.front();
    if (!definition || !job || job.state === "starting") return;
    // What a job before it left undone is known only when its attempts have been called off.
    const [cut = job.n] = ledger.jobs.reaping(1);
    if (cut < job.n) return;
    const context = { definition, job };
    if (job.carried !== ALL_CARRIED) await carry(parts, context);
    else if (job.open > 0) return;
    else if (job.failed > 0) failJob(parts, context);
    else if (!(await endFront(parts, context))) return;
  }
}

/**
 * Datums that the front inherited and that have no result: those that failed in the job before, or were called off
 * in it, and are still alive. They get rows only now, so that such a datum costs each later job nothing until it is
 * its turn. A job that was cut short before its turn took nothing over: then what its own predecessor left counts too.
 */
async function carry(parts: PipelineContext, context: JobContext): Promise<void> {
  const { ledger, wakes } = parts;
  const { job, definition } = context;
  for (let from = job.n - 1; from > 0; from--) {
    await carryFrom(parts, { ...context, from });
    if (ledger.jobs.get(from)?.carried === ALL_CARRIED) break;
    if (from % JOBS_PER_TURN === 0) await yieldToOthers();
  }
  const now = parts.peers.now();
  const done = runningStep(ledger, context, () => {
    ledger.jobs.setCarried(job.n, now);
    if (definition.jobTimeoutMs !== null) ledger.timers.arm("jobs", now + definition.jobTimeoutMs);
    return true;
  });
  if (done) wakes.outbox();
}

async function carryFrom(
  { ledger, wakes }: PipelineContext,
  context: JobContext & { from: number },
): Promise<void> {
  const { job, from } = context;
  for (const left of [ledger.attempts.failed, ledger.attempts.killed]) {
    let after: string | null = null;
    for (let more = true; more; ) {
      const page = runningStep(ledger, context, () => {
        const rows = left.call(ledger.attempts, from, { after, limit: CARRY });
        for (const { id, key } of rows) {
          if (ledger.datums.aliveAt(id, job.n) && !ledger.results.has(id))
            ledger.attempts.add(job.n, { id, key });
        }
        return rows;
      });
      after = page?.at(-1)?.key ?? null;
      more = page?.length === CARRY;
      wakes.queued();
      if (more) await yieldToOthers();
    }
  }
}

function failJob(parts: PipelineContext, context: JobContext): void {
  const { definition, job } = context;
  const [first] = parts.ledger.attempts.failed(job.n, { after: null, limit: 1 });
  const reason = first ? failureText(definition, { first, count: job.failed }) : "a datum failed";
  endJob(parts, { ...context, end: { state: "failure", reason } });
}
