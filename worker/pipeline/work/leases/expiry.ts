import { LEASE_MS } from "../../../../protocol/runner.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Uses } from "../../context.ts";
import type { InputCommit, Renewal, RenewedLeases } from "../../contract.ts";
import type { JobRow } from "../../jobs/job-store.ts";
import type { Definition } from "../../lifecycle/definition.ts";
import { type FailsJob, failJobOf } from "./tasks.ts";

/** What a sweep of expired leases touches. */
export type Sweeps = Uses<"attempts" | "tasks"> & FailsJob;

/** How often the worker of a datum or task may vanish in one job before that is taken to be the reason. */
const MAX_LOSSES = 10;
/** Expired leases swept in one transaction. */
const SWEEP = 500;

/** When the next lease runs out. */
export function nextExpiry({ attempts, tasks }: Uses<"attempts" | "tasks">["ledger"]): number | undefined {
  const due = [attempts.nextExpiry(), tasks.nextExpiry()].filter((at) => at !== undefined);
  return due.length > 0 ? Math.min(...due) : undefined;
}

/** Puts datums and tasks whose lease ran out back into the queue. Returns whether there were any. */
export function sweep(tx: Tx, uses: Sweeps, now: number): boolean {
  const { ledger, wakes } = uses;
  const sweptTasks = sweepTasks(tx, uses, now);
  const expired = ledger.attempts.expired(now, SWEEP);
  for (const attempt of expired) {
    const lost = attempt.lost + 1;
    if (lost < MAX_LOSSES) ledger.attempts.requeue({ ...attempt, lost });
    else {
      const reason = lossText(lost);
      ledger.attempts.fail({ ...attempt, lost }, { exitCode: null, reason, log: "", now, bad: false });
    }
  }
  if (expired.length === 0 && !sweptTasks) return false;
  wakes.queued();
  wakes.advance();
  return true;
}

function sweepTasks(tx: Tx, uses: Sweeps, now: number): boolean {
  const { tasks } = uses.ledger;
  const expired = tasks.expired(now, SWEEP);
  for (const task of expired) {
    const lost = task.lost + 1;
    tasks.requeue({ ...task, lost });
    if (lost >= MAX_LOSSES) failJobOf(tx, uses, { task, why: lossText(lost) });
  }
  return expired.length > 0;
}

function lossText(lost: number): string {
  return `its worker was lost ${lost} times while it ran`;
}

/**
 * Keeps leases; returns those that are lost, all of them while the pipeline does not run, and what the others read. A worker that leaves frees
 * its slot in whatever state the pipeline is: when it starts again, another worker would wait for a slot of nobody.
 */
export function renew(
  tx: Tx,
  uses: Sweeps & Uses<"active" | "slots" | "jobs">,
  { worker, leases, leaving, trouble }: Renewal,
): RenewedLeases {
  const { ledger, peers } = uses;
  const now = peers.now();
  const until = now + LEASE_MS;
  if (leaving) ledger.slots.release(worker);
  const definition = ledger.active();
  if (!definition) return { lost: [...leases] };
  sweep(tx, uses, now);
  if (!leaving) ledger.slots.renew(worker, { now, until });
  if (trouble !== undefined) ledger.slots.setTrouble(worker, trouble || null);
  const lost: string[] = [];
  const kept = new Set<number>();
  for (const lease of leases) {
    const job = ledger.attempts.renew(lease, until) ?? ledger.tasks.renew(lease, until);
    if (job === undefined) lost.push(lease);
    else kept.add(job);
  }
  if (kept.size === 0) return { lost };
  const jobs = [...kept].flatMap((n) => ledger.jobs.get(n) ?? []);
  const read = jobs.map((job) => ({ job: job.id, inputs: inputCommits(definition, job) }));
  return { lost, kept: { output: definition.output, jobs: read } };
}

/** The commits that a job reads. */
function inputCommits({ inputs }: Definition, { positions }: JobRow): InputCommit[] {
  return inputs.flatMap(({ repo, branch, source, from }) => {
    const commit = positions[source]?.commit;
    return commit ? [{ repo, branch, commit, from }] : [];
  });
}
