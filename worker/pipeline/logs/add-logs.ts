import type { PipelineContext } from "../context.ts";
import type { JobRow } from "../jobs/job-store.ts";
import { sweep } from "../work/leases.ts";
import type { LogEntry } from "./log-store.ts";

/** What one lease's command printed. */
export type LeaseEntry = LogEntry & { readonly lease: string };

/** What became of the entries of one call. */
export interface AddedLogs {
  /** Leases that are lost: nothing was kept of what they printed. */
  readonly lost: string[];
  /** The jobs that have more lines now. */
  readonly jobs: string[];
}

/**
 * Keeps what leases printed. The lease is the fence, as it is for outcomes; an entry that comes twice is kept once. A
 * task prints nothing that is kept, but its lease is not lost for that. To be called in a transaction.
 */
export function addLogs(parts: PipelineContext, entries: readonly LeaseEntry[]): AddedLogs {
  const { ledger, peers } = parts;
  const now = peers.now();
  sweep(parts, now);
  const lost = new Set<string>();
  const jobs = new Map<number, JobRow>();
  for (const entry of entries) {
    const { lease } = entry;
    const held = ledger.attempts.held(lease);
    const job = held && (jobs.get(held.job) ?? ledger.jobs.get(held.job));
    if (!held || !job) {
      if (!ledger.tasks.held(lease)) lost.add(lease);
      continue;
    }
    jobs.set(job.n, job);
    const printer = { job: job.n, datum: held.id, node: held.node, lease, since: job.createdAt };
    ledger.logs.add(printer, entry, { now });
  }
  return { lost: [...lost], jobs: [...jobs.values()].map(({ id }) => id) };
}
