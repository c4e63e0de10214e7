import type { PipelineContext } from "../context.ts";
import type { Definition } from "../definition.ts";
import { type Fill, PIPELINE } from "./job-store.ts";

interface Event {
  readonly definition: Definition;
  readonly source: number;
  readonly at: { readonly generation: number; readonly seq: number };
}

/** One job for an event, where the inputs were read to. Undefined where that event has its job. To be called in a transaction. */
export function insertJob(
  { ledger, peers }: PipelineContext,
  { definition, source, at, fill }: Event & { fill: Fill },
): number | undefined {
  return ledger.jobs.insert({
    id: peers.id(ledger.jobs.newest()?.id),
    revision: definition.revision,
    source,
    at,
    positions: ledger.sources.all(),
    fill,
    now: peers.now(),
  });
}

/** A job that reads its inputs whole, whatever was known of them before. To be called in a transaction. */
export function insertWholeJob(parts: PipelineContext, event: Event): void {
  const { pipeline } = parts.ledger;
  const n = insertJob(parts, { ...event, fill: { step: "forget" } });
  pipeline.setBegun(1);
  pipeline.setOwed(0);
  // Before the first job there were no results, so none of another salt.
  if (n !== undefined && n > 1) pipeline.setStaleBefore(n);
}

/** What makes a job unique that no commit made: the pipeline's own version, which has just grown. */
export function pipelineEvent(parts: PipelineContext, definition: Definition): Event {
  const seq = parts.ledger.pipeline.row()?.version ?? 0;
  return { definition, source: PIPELINE, at: { generation: 0, seq } };
}
