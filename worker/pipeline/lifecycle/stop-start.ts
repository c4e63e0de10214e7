import type { Tx } from "../../sqlite/transaction.ts";
import type { PipelineContext } from "../context.ts";
import { insertWholeJob, pipelineEvent } from "../jobs/make.ts";
import { whileIn } from "../ledger/guards.ts";
import { endAllJobs } from "./end-all-jobs.ts";
import type { StoredState } from "./pipeline-store.ts";
import { subscribe } from "./subscribe.ts";

/** From here on nothing is leased and no event makes a job. False where the pipeline does not run. */
export function beginStop({ ledger }: PipelineContext): boolean {
  return move(ledger, { from: "active", to: "stopping" });
}

/** False where the pipeline is not stopped. */
export function beginStart({ ledger }: PipelineContext): boolean {
  return move(ledger, { from: "stopped", to: "starting" });
}

function move(
  ledger: PipelineContext["ledger"],
  { from, to }: { from: StoredState; to: StoredState },
): boolean {
  return ledger.transaction(() => {
    if (ledger.pipeline.row()?.state !== from) return false;
    ledger.pipeline.setState(to);
    return true;
  });
}

/**
 * Rolls a stop forward: jobs end, then the inputs are let go of, so that a stopped pipeline holds none of their
 * history. Where each was read to is kept. Each step may be done again. Throws where a peer can't be reached.
 */
export async function continueStop(parts: PipelineContext): Promise<void> {
  const { ledger, peers } = parts;
  const definition = ledger.pipeline.definition();
  if (!definition || ledger.pipeline.row()?.state !== "stopping") return;
  const { uid, sources } = definition;
  await endAllJobs(parts, { definition, reason: "the pipeline was stopped" });
  for (const source of sources) await peers.branch(source).unsubscribe({ uid });
  whileIn(ledger, { uid, state: "stopping", work: rest });

  function rest(): void {
    ledger.sources.setUnsubscribed();
    ledger.pipeline.setPullDue(0);
    ledger.pipeline.setState("stopped");
  }
}

/**
 * Rolls a start forward: the inputs are followed again from their HEADs on. There is one job for those, if they moved
 * since the last job or if the stop (or an update meanwhile) left one undone.
 */
export async function continueStart(parts: PipelineContext): Promise<void> {
  const { ledger } = parts;
  const definition = ledger.pipeline.definition();
  if (!definition || ledger.pipeline.row()?.state !== "starting") return;
  const present = definition;
  for (const source of ledger.sources.unsubscribed()) {
    await subscribe(parts, { definition, state: "starting", source });
  }
  whileIn(ledger, { uid: definition.uid, state: "starting", work: run });

  function run(tx: Tx): void {
    ledger.pipeline.setState("active");
    ledger.pipeline.setPullDue(1);
    const { hadFirstJob, wholeJobDue } = ledger.pipeline.row() ?? {};
    const due = hadFirstJob === 1 ? wholeJobDue === 1 : ledger.sources.allHaveData();
    if (due) insertWholeJob(tx, parts, pipelineEvent(ledger, present));
  }
}
