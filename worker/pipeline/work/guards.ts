import type { Tx } from "../../objects/transaction.ts";
import type { JobWork } from "../context.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { StoredState } from "../lifecycle/pipeline-store.ts";

/** A step of working out a job's datums: done only while they are not known and still wanted. */
export function fillingStep<T>({ ledger, definition, job }: JobWork, work: (tx: Tx) => T): T | undefined {
  return ledger.step(definition, (tx) => (ledger.jobs.isUnfilled(job.n) ? work(tx) : undefined));
}

/** A step of a job's work: done only while the job has not ended and the pipeline runs. */
export function runningStep<T>(of: JobWork, work: (tx: Tx) => T): T | undefined {
  return of.ledger.step(of.definition, unlessEnded(of, work));
}

/** A step of a job's end, as `runningStep`; once its commit may have been made, also while the pipeline ends its jobs. */
export function endStep<T>(of: JobWork, work: (tx: Tx) => T): T | undefined {
  const guarded = unlessEnded(of, work);
  const { ledger, definition, job } = of;
  return job.committing === 1 ? ledger.endingStep(definition, guarded) : ledger.step(definition, guarded);
}

function unlessEnded<T>({ ledger, job }: JobWork, work: (tx: Tx) => T): (tx: Tx) => T | undefined {
  return (tx) => (ledger.jobs.isUnfinished(job.n) ? work(tx) : undefined);
}

/**
 * A step of what takes a pipeline from one state to another: done in one transaction, and only while this life of the
 * pipeline is still in the state that the step belongs to.
 */
export function whileIn(
  ledger: Ledger,
  { uid, state, work }: { uid: string; state: StoredState; work: (tx: Tx) => void },
): void {
  ledger.transaction((tx) => {
    if (ledger.pipeline.row()?.state === state && ledger.pipeline.definition()?.uid === uid) work(tx);
  });
}
