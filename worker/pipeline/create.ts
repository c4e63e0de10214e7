import type { PipelineSpec } from "../../protocol/spec.ts";
import type { Definition } from "./definition.ts";
import { CREATION } from "./jobs.ts";
import type { Ledger } from "./ledger.ts";
import { pipelineRecord } from "./outbox.ts";
import type { Parts } from "./parts.ts";
import { hasFileAt } from "./pull.ts";
import { purge } from "./purge.ts";
import type { Source } from "./sources.ts";

/** Where a pipeline leaves its trace outside of the catalogue, so that it can be found should that be lost. */
export function markerName(pipeline: string): string {
  return `m/pipelines/${pipeline}`;
}

/** Writes down what is to be made. False where there is such a pipeline; one that is still being made is gone on with. */
export async function beginCreation(parts: Parts, spec: PipelineSpec): Promise<boolean> {
  const { ledger, peers } = parts;
  ledger.makeTables();
  await purge(parts);
  return ledger.transaction(() => {
    const state = ledger.pipeline.row()?.state;
    const same = JSON.stringify(ledger.pipeline.definition()?.spec) === JSON.stringify(spec);
    if (state === "creating" && same) return true;
    if (state !== undefined && state !== "deleted") return false;
    ledger.pipeline.begin({ uid: peers.id(), spec, now: peers.now() });
    const definition = ledger.pipeline.definition();
    for (const [source, address] of (definition?.sources ?? []).entries()) {
      ledger.sources.insert({ source, ...address });
    }
    return true;
  });
}

/**
 * Rolls a creation forward (design §6): claim the output, leave the marker, subscribe to the inputs, tell the
 * catalogue, run. Each step may be done again; a crash goes on from what is written down. Answers whether the output
 * branch is somebody else's. Throws where a peer can't be reached.
 */
export async function continueCreation(parts: Parts): Promise<"output-exists" | "done"> {
  const { ledger, peers } = parts;
  const definition = ledger.pipeline.definition();
  if (!definition || !isCreating(ledger, definition.uid)) return "done";
  if (!(await claim(parts, definition))) return "output-exists";
  const marker = JSON.stringify({ pipeline: definition.name, uid: definition.uid });
  await peers.blobs.put(markerName(definition.name), new TextEncoder().encode(marker));
  for (const source of ledger.sources.unsubscribed()) await subscribe(parts, { definition, source });
  // The version is read while the creation stands: a deletion that began meanwhile has a higher one and wins.
  if (!isCreating(ledger, definition.uid)) return "done";
  await peers.catalogue.pipelines.record(
    pipelineRecord(ledger, { definition, state: "active", deleted: false }),
  );
  activate(parts, definition);
  return "done";
}

/** False where the branch is not to be had. */
async function claim({ ledger, peers }: Parts, { name, uid, output }: Definition): Promise<boolean> {
  if (ledger.pipeline.row()?.epoch !== null) return true;
  const claimed = await peers.branch(output).claim({ pipeline: name, uid });
  if (!claimed.ok && claimed.reason === "catalogue-unavailable") {
    throw new Error("the catalogue can't be reached");
  }
  whileCreating(ledger, {
    uid,
    // Nobody has heard of a pipeline that is refused: it simply never was.
    work: () => (claimed.ok ? ledger.pipeline.setEpoch(claimed.epoch) : ledger.pipeline.setState("purging")),
  });
  return claimed.ok;
}

/** From the branch's HEAD on, events come; what lies there already is read as it was at exactly that position. */
async function subscribe(
  { ledger, peers }: Parts,
  { definition, source }: { definition: Definition; source: Source },
): Promise<void> {
  const { uid, name } = definition;
  const branch = peers.branch(source);
  const { cursor } = await branch.subscribe({ uid, pipeline: name });
  const before = { generation: cursor.generation, seq: cursor.seq - 1 };
  const events = cursor.seq > 0 ? (await branch.feed({ cursor: before, limit: 1 })).events : [];
  const commit = events[0]?.kind === "commit" ? events[0].id : null;
  const hasData = commit !== null && (await hasFileAt(branch, cursor));
  whileCreating(ledger, {
    uid,
    work: () => ledger.sources.subscribed(source.source, { ...cursor, commit, hasData }),
  });
}

/** From here on events make jobs; where every input has data already, there is one for what is there. */
function activate({ ledger, peers }: Parts, { uid }: Definition): void {
  whileCreating(ledger, { uid, work: begin });

  function begin(): void {
    ledger.pipeline.setState("active");
    ledger.pipeline.setPullDue(1);
    if (!ledger.sources.allHaveData()) return;
    ledger.jobs.insert({
      id: peers.id(),
      source: CREATION,
      at: { generation: 0, seq: 0 },
      positions: ledger.sources.all(),
      fill: { step: "snapshot", source: 0, after: "" },
      now: peers.now(),
    });
  }
}

function isCreating(ledger: Ledger, uid: string): boolean {
  return ledger.pipeline.row()?.state === "creating" && ledger.pipeline.definition()?.uid === uid;
}

function whileCreating(ledger: Ledger, { uid, work }: { uid: string; work: () => void }): void {
  ledger.transaction(() => {
    if (isCreating(ledger, uid)) work();
  });
}
