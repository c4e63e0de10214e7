import type { Tx } from "../../objects/transaction.ts";
import type { PipelineContext } from "../context.ts";
import type { LogCalls } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { LogEntry } from "../logs/log-store.ts";
import { answerLogs } from "../views/logs.ts";
import { keepTime } from "../work/leases.ts";
import type { PipelineFacet } from "./facet.ts";

export const logs: PipelineFacet<LogCalls> = {
  read: answerLogs,

  async add(reach, { entries }) {
    const { ledger, memory } = reach;
    if (!ledger.active()) return { lost: [...new Set(entries.map(({ lease }) => lease))] };
    const { lost, jobs } = ledger.transaction((tx) => keep(tx, reach, entries));
    for (const job of jobs) memory.logged.wake(job);
    return { lost };
  },
};

/** What one lease's command printed. */
type LeaseEntry = LogEntry & { readonly lease: string };

/** What became of the entries of one call. */
interface AddedLogs {
  /** Leases that are lost: nothing was kept of what they printed. */
  readonly lost: string[];
  /** The jobs that have more lines now. */
  readonly jobs: string[];
}

/**
 * Keeps what leases printed. The lease is the fence, as it is for outcomes; an entry that comes twice is kept once. What
 * a task prints is not kept, but its lease is not lost for that.
 */
function keep(tx: Tx, context: PipelineContext, entries: readonly LeaseEntry[]): AddedLogs {
  const { ledger, peers } = context;
  const now = peers.now();
  keepTime(tx, context, now);
  const lost = new Set<string>();
  const jobs = new Map<number, JobRow>();
  for (const entry of entries) {
    const { lease } = entry;
    const held = ledger.attempts.held(lease, now);
    const job = held && (jobs.get(held.job) ?? ledger.jobs.get(held.job));
    if (!held || !job) {
      if (!ledger.tasks.held(lease, now)) lost.add(lease);
      continue;
    }
    jobs.set(job.n, job);
    const printer = { job: job.n, datum: held.id, node: held.node, lease, since: job.createdAt };
    ledger.logs.add(tx, printer, { ...entry, now });
  }
  return { lost: [...lost], jobs: [...jobs.values()].map(({ id }) => id) };
}
