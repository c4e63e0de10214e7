import type { PipelineSpec } from "../../../protocol/spec.ts";
import { checkSpec } from "../../core/spec.ts";
import type { Tx } from "../../sqlite/transaction.ts";
import type { PipelineContext } from "../context.ts";
import { type Definition, markerName } from "../definition.ts";
import { pipelineRecord } from "../engine/catalogue-outbox.ts";
import { findStarts } from "../inputs/starts.ts";
import { insertWholeJob, pipelineEvent } from "../jobs/make.ts";
import { whileIn } from "../ledger/guards.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { purge } from "./destroy.ts";
import { subscribe } from "./subscribe.ts";

/** `already-exists`: there is such a pipeline; one that is still being made is gone on with. */
export type CreationBegun = "begun" | "already-exists" | "no-such-commit";

/** Writes down what is to be made. */
export async function beginCreation(parts: PipelineContext, spec: PipelineSpec): Promise<CreationBegun> {
  const { ledger, peers } = parts;
  const checked = checkSpec(spec);
  const starts = await findStarts(peers, checked.ok ? checked.inputs : []);
  if (!starts) return "no-such-commit";
  ledger.makeTables();
  await purge(parts);
  return ledger.transaction(() => {
    const state = ledger.pipeline.row()?.state;
    const same = JSON.stringify(ledger.pipeline.definition()?.spec) === JSON.stringify(spec);
    if (state === "creating" && same) return "begun";
    if (state !== undefined && state !== "deleted") return "already-exists";
    ledger.pipeline.begin({ uid: peers.id(), spec, starts, now: peers.now() });
    const definition = ledger.pipeline.definition();
    for (const [source, address] of (definition?.sources ?? []).entries()) {
      ledger.sources.insert({ source, ...address });
    }
    return "begun";
  });
}

/**
 * Rolls a creation forward (design §6): claim the output, leave the marker, subscribe to the inputs, tell the
 * catalogue, run. Each step may be done again; a crash goes on from what is written down. Answers whether the output
 * branch is somebody else's. Throws where a peer can't be reached.
 */
export async function continueCreation(parts: PipelineContext): Promise<"output-exists" | "done"> {
  const { ledger, peers } = parts;
  const definition = ledger.pipeline.definition();
  if (!definition || !isCreating(ledger, definition.uid)) return "done";
  if (!(await claim(parts, definition))) return "output-exists";
  const marker = JSON.stringify({ pipeline: definition.name, uid: definition.uid });
  await peers.blobs.put(markerName(definition.name), new TextEncoder().encode(marker));
  for (const source of ledger.sources.unsubscribed()) {
    await subscribe(parts, { definition, state: "creating", source });
  }
  // The version is read while the creation stands: a deletion that began meanwhile has a higher one and wins.
  if (!isCreating(ledger, definition.uid)) return "done";
  await peers.catalogue.pipelines.record(
    pipelineRecord(ledger, { definition, state: "active", deleted: false }),
  );
  activate(parts, definition);
  return "done";
}

/** False where the branch is not to be had. */
async function claim(
  { ledger, peers }: PipelineContext,
  { name, uid, output }: Definition,
): Promise<boolean> {
  if (ledger.pipeline.row()?.epoch !== null) return true;
  const claimed = await peers.branch(output).claim({ pipeline: name, uid });
  if (!claimed.ok && claimed.reason === "catalogue-unavailable") {
    throw new Error("the catalogue can't be reached");
  }
  whileIn(ledger, {
    uid,
    state: "creating",
    // Nobody has heard of a pipeline that is refused: it simply never was.
    work: () => (claimed.ok ? ledger.pipeline.setEpoch(claimed.epoch) : ledger.pipeline.setState("purging")),
  });
  return claimed.ok;
}

/** From here on events make jobs; where every input has data already, there is one for what is there. */
function activate(parts: PipelineContext, definition: Definition): void {
  const { ledger } = parts;
  whileIn(ledger, { uid: definition.uid, state: "creating", work: begin });

  function begin(tx: Tx): void {
    ledger.pipeline.setState("active");
    // What the catalogue was told of is what is true from now on.
    ledger.pipeline.setCatalogueVersion(ledger.pipeline.row()?.version ?? 0);
    ledger.pipeline.setPullDue(1);
    if (ledger.sources.allHaveData()) insertWholeJob(tx, parts, pipelineEvent(ledger, definition));
  }
}

function isCreating(ledger: Ledger, uid: string): boolean {
  return ledger.pipeline.row()?.state === "creating" && ledger.pipeline.definition()?.uid === uid;
}
