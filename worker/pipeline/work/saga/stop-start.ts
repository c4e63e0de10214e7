import type { Tx } from "../../../objects/transaction.ts";
import type { PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition } from "../../lifecycle/definition.ts";
import type { StoredState } from "../../lifecycle/pipeline-store.ts";
import { whileIn } from "../guards.ts";
import { insertWholeJob, pipelineEvent } from "../jobs/make.ts";
import { endAllJobs } from "./end-all-jobs.ts";
import { subscribe } from "./subscribe.ts";

/** From here on nothing is leased and no event makes a job. Returns false if the pipeline does not run. */
export function beginStop(ledger: Ledger): boolean {
  return move(ledger, { from: "active", to: "stopping" });
}

/** Returns false if the pipeline is not stopped. */
export function beginStart(ledger: Ledger): boolean {
  return move(ledger, { from: "stopped", to: "starting" });
}

function move(ledger: Ledger, { from, to }: { from: StoredState; to: StoredState }): boolean {
  return ledger.transaction(() => {
    if (ledger.pipeline.row()?.state !== from) return false;
    ledger.pipeline.setState(to);
    return true;
  });
}

/**
 * Rolls a stop forward: jobs end, then the pipeline unsubscribes from its inputs, so that a stopped pipeline keeps none
 * of their history alive. Where each was read to is kept. Throws if a peer can't be reached.
 */
export async function continueStop(context: PipelineContext): Promise<void> {
  const { ledger, peers } = context;
  const definition = ledger.pipeline.definition();
  if (!definition || ledger.pipeline.row()?.state !== "stopping") return;
  const { uid, sources } = definition;
  await endAllJobs(context, { definition, reason: "the pipeline was stopped" });
  for (const source of sources) await peers.branch(source).feed.unsubscribe({ uid, stopped: true });
  whileIn(ledger, { uid, state: "stopping", work: rest });

  function rest(): void {
    ledger.sources.setUnsubscribed();
    ledger.pipeline.setPullDue(0);
    ledger.pipeline.setState("stopped");
    // Jobs have ended while nothing was trimmed.
    ledger.wake("trim");
  }
}

/**
 * Rolls a start forward: the inputs are followed again from their HEADs on. One job is made for those, if they moved
 * since the last job or if the stop (or an update meanwhile) left one undone. Throws if a peer can't be reached.
 */
export async function continueStart(context: PipelineContext): Promise<void> {
  const { ledger } = context;
  const definition = ledger.pipeline.definition();
  if (!definition || ledger.pipeline.row()?.state !== "starting") return;
  for (const source of ledger.sources.unsubscribed()) {
    await subscribe(context, { definition, state: "starting", source });
  }
  whileIn(ledger, { uid: definition.uid, state: "starting", work: (tx) => run(tx, context, definition) });
}

function run(tx: Tx, context: PipelineContext, definition: Definition): void {
  const { pipeline, sources } = context.ledger;
  pipeline.setState("active");
  pipeline.setPullDue(1);
  const { hadFirstJob, wholeJobDue } = pipeline.row() ?? {};
  const due = hadFirstJob === 1 ? wholeJobDue === 1 : sources.allHaveData();
  if (due) insertWholeJob(tx, context, pipelineEvent(context.ledger, definition));
}
