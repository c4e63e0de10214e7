import type { Tx } from "../../../objects/transaction.ts";
import type { PipelineContext } from "../../context.ts";
import { failJobOf } from "./tasks.ts";

/** How often the worker of a datum or task may vanish in one job before that is taken to be the reason. */
const MAX_LOSSES = 10;
/** Expired leases swept in one transaction. */
const SWEEP = 500;

/** Puts datums and tasks whose lease ran out back into the queue. Returns whether there were any. */
export function sweep(tx: Tx, context: PipelineContext, now: number): boolean {
  const { ledger, memory } = context;
  const sweptTasks = sweepTasks(tx, context, now);
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
  memory.queued.wake();
  return true;
}

function sweepTasks(tx: Tx, context: PipelineContext, now: number): boolean {
  const { tasks } = context.ledger;
  const expired = tasks.expired(now, SWEEP);
  for (const task of expired) {
    const lost = task.lost + 1;
    tasks.requeue({ ...task, lost });
    if (lost >= MAX_LOSSES) failJobOf(tx, context, { task, why: lossText(lost) });
  }
  return expired.length > 0;
}

function lossText(lost: number): string {
  return `its worker was lost ${lost} times while it ran`;
}
