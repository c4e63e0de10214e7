import { LEASE_MS } from "../../../protocol/runner.ts";
import type { PipelineContext } from "../context.ts";
import type { Renewal } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { failJob } from "./tasks.ts";

/** How often the worker of a datum or task may vanish in one job before that is taken to be the reason. */
const MAX_LOSSES = 10;
/** Expired leases swept in one transaction. */
const SWEEP = 500;

/** When the next lease runs out. */
export function nextExpiry({ attempts, tasks }: Ledger): number | undefined {
  const due = [attempts.nextExpiry(), tasks.nextExpiry()].filter((at) => at !== undefined);
  return due.length > 0 ? Math.min(...due) : undefined;
}

/** Puts datums and tasks whose lease ran out back into the queue. True where there were any. */
export function sweep(parts: PipelineContext, now: number): boolean {
  const { ledger, wakes } = parts;
  const sweptTasks = sweepTasks(parts, now);
  const expired = ledger.attempts.expired(now, SWEEP);
  for (const attempt of expired) {
    const lost = attempt.lost + 1;
    if (lost < MAX_LOSSES) ledger.attempts.requeue({ ...attempt, lost });
    else {
      const reason = `its worker was lost ${lost} times while it ran`;
      ledger.attempts.fail({ ...attempt, lost }, { exitCode: null, reason, log: "", now });
    }
  }
  if (expired.length === 0 && !sweptTasks) return false;
  wakes.queued();
  wakes.front();
  return true;
}

/** Keeps leases; answers those that are lost. A worker that leaves keeps its slot no longer. */
export function renew(parts: PipelineContext, { worker, leases, leaving, trouble }: Renewal): string[] {
  const { ledger, peers } = parts;
  const now = peers.now();
  const until = now + LEASE_MS;
  sweep(parts, now);
  if (leaving) ledger.slots.release(worker);
  else ledger.slots.renew(worker, { now, until });
  if (trouble !== undefined) ledger.slots.setTrouble(worker, trouble || null);
  return leases.filter((lease) => !ledger.attempts.renew(lease, until) && !ledger.tasks.renew(lease, until));
}

/** Puts tasks whose lease ran out back into the queue. True where there were any. To be called in a transaction. */
function sweepTasks(parts: PipelineContext, now: number): boolean {
  const { ledger } = parts;
  const expired = ledger.tasks.expired(now, SWEEP);
  for (const task of expired) {
    const lost = task.lost + 1;
    ledger.tasks.requeue({ ...task, lost });
    if (lost >= MAX_LOSSES) failJob(parts, { task, why: `its worker was lost ${lost} times while it ran` });
  }
  return expired.length > 0;
}
