import type { BranchAddress } from "../../../protocol/names.ts";
import { type PipelineContext, yieldToOthers } from "../context.ts";
import { flushPage, pipelineRecord } from "../engine/catalogue-outbox.ts";
import { markerName } from "./create.ts";
import { endJobs } from "./end-all-jobs.ts";

/** From here on nothing is leased and no event makes a job. False where there is no pipeline. */
export function beginDestruction(
  { ledger }: PipelineContext,
  { keepOutput }: { keepOutput: boolean },
): boolean {
  return ledger.transaction(() => {
    const state = ledger.pipeline.row()?.state;
    if (state === "deleting") return true;
    if (state === undefined || state === "purging" || state === "deleted") return false;
    ledger.pipeline.setKeepOutput(keepOutput ? 1 : 0);
    ledger.pipeline.setState("deleting");
    return true;
  });
}

/** Rolls a deletion forward; each step may be done again. Throws where a peer can't be reached. */
export async function continueDestruction(parts: PipelineContext): Promise<void> {
  const { ledger, peers } = parts;
  const definition = ledger.pipeline.definition();
  if (!definition || ledger.pipeline.row()?.state !== "deleting") return;
  const { uid, name, output } = definition;
  for (const source of subscribedSources(parts)) await peers.branch(source).unsubscribe({ uid });
  await endJobs(parts, { definition, reason: "the pipeline was deleted" });
  // Jobs outlive their pipeline in the catalogue: they end there before the rows go.
  while (await flushPage(parts)) await yieldToOthers();
  await peers.branch(output).release({ uid, destroy: ledger.pipeline.row()?.keepOutput === 0 });
  await peers.catalogue.pipelines.record(
    pipelineRecord(ledger, { definition, state: "deleting", deleted: true }),
  );
  await peers.blobs.delete(markerName(name));
  ledger.transaction(() => {
    const current = ledger.pipeline.row()?.state === "deleting" && ledger.pipeline.definition()?.uid === uid;
    if (current) ledger.pipeline.setState("purging");
  });
}

/** Those of this version, and of the one before: an update may not have got to the end of it. */
function subscribedSources({ ledger }: PipelineContext): readonly BranchAddress[] {
  const present = ledger.pipeline.definition();
  const before = present && ledger.pipeline.definitionAt(present.revision - 1);
  return [...(present?.sources ?? []), ...(before?.sources ?? [])];
}
