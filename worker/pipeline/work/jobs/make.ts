import type { Tx } from "../../../objects/transaction.ts";
import type { PipelineContext } from "../../context.ts";
import { candidates, readersOf } from "../../inputs/candidates.ts";
import type { Source } from "../../inputs/source-store.ts";
import { type Fill, PIPELINE } from "../../jobs/job-store.ts";
import { circleText } from "../../jobs/lineage.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition } from "../../lifecycle/definition.ts";
import { endEarly } from "./end.ts";

interface Event {
  readonly definition: Definition;
  readonly source: number;
  readonly at: { readonly generation: number; readonly seq: number };
}

/**
 * One job for an event, at the places that the inputs were read to. Returns undefined if that event has its job. If the
 * job would go on in a circle, it ends at once.
 */
export function insertJob(
  tx: Tx,
  context: PipelineContext,
  { definition, source, at, fill }: Event & { fill: Fill },
): number | undefined {
  const { ledger, peers } = context;
  const positions = ledger.sources.all();
  const n = ledger.jobs.insert({
    id: peers.id(ledger.jobs.newest()?.id ?? definition.uid),
    revision: definition.revision,
    source,
    at,
    positions,
    fill,
    now: peers.now(),
  });
  if (n !== undefined) touchErased(tx, context, { definition, positions, n });
  const reason = n === undefined ? undefined : circleText(definition, positions);
  const job = n === undefined || reason === undefined ? undefined : ledger.jobs.get(n);
  if (job && reason !== undefined) endEarly(tx, context, { job, state: "failure", reason });
  return n;
}

/** The job compares what was erased since the one before. From the commit on at which it would have died, events tell of it. */
function touchErased(
  _: Tx,
  { ledger }: PipelineContext,
  { definition, positions, n }: { definition: Definition; positions: readonly Source[]; n: number },
): void {
  for (const { source, path, generation, died } of ledger.erasures.takePaths()) {
    const at = positions[source];
    if (at?.generation !== generation || at.seq >= died) continue;
    ledger.touched.add(n, candidates([{ path, now: null }], readersOf(definition.inputs, source)));
  }
}

/** A job that reads its inputs whole, whatever was known of them before. */
export function insertWholeJob(tx: Tx, deps: PipelineContext, event: Event): void {
  const { pipeline } = deps.ledger;
  const n = insertJob(tx, deps, { ...event, fill: { step: "forget" } });
  pipeline.setHadFirstJob(1);
  pipeline.setWholeJobDue(0);
  // Before the first job there were no results, and so no results of another salt.
  if (n !== undefined && n > 1) pipeline.setStaleUntil(n);
}

/** What makes a job unique that no commit made: the pipeline's own version, which has just grown. */
export function pipelineEvent({ pipeline }: Ledger, definition: Definition): Event {
  const seq = pipeline.row()?.version ?? 0;
  return { definition, source: PIPELINE, at: { generation: 0, seq } };
}
