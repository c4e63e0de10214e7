import { markerName } from "./create.ts";
import { flushPage, pipelineRecord } from "./outbox.ts";
import { type Parts, yieldToOthers } from "./parts.ts";

/** Unfinished jobs ended in one transaction. */
const SLICE = 200;

/** From here on nothing is leased and no event makes a job. False where there is no pipeline. */
export function beginDestruction({ ledger }: Parts, { keepOutput }: { keepOutput: boolean }): boolean {
  return ledger.transaction(() => {
    const state = ledger.pipeline.row()?.state;
    if (state === "deleting") return true;
    if (state !== "active" && state !== "creating") return false;
    ledger.pipeline.setKeepOutput(keepOutput ? 1 : 0);
    ledger.pipeline.setState("deleting");
    return true;
  });
}

/** Rolls a deletion forward; each step may be done again. Throws where a peer can't be reached. */
export async function continueDestruction(parts: Parts): Promise<void> {
  const { ledger, peers } = parts;
  const definition = ledger.pipeline.definition();
  if (!definition || ledger.pipeline.row()?.state !== "deleting") return;
  const { uid, name, sources, output } = definition;
  for (const source of sources) await peers.branch(source).unsubscribe({ uid });
  await abandonJobs(parts);
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

/** Jobs outlive their pipeline in the catalogue: they end there before the rows go. */
async function abandonJobs(parts: Parts): Promise<void> {
  const { ledger, peers, wakes } = parts;
  for (;;) {
    const ended = ledger.transaction(() =>
      ledger.jobs.abandon({ limit: SLICE, reason: "the pipeline was deleted", now: peers.now() }),
    );
    for (const id of ended) wakes.ended(id);
    if (ended.length < SLICE) break;
    await yieldToOthers();
  }
  while (await flushPage(parts)) await yieldToOthers();
}
