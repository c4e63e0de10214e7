/*
 * The states of a pipeline, and what takes it from one to the next.
 *
 *   creating → active → stopping → stopped → starting → active
 *   creating → purging → deleted, if the output branch is somebody else's
 *   creating → deleting → purging → deleted, if the pipelines would go in a circle (propose.ts), or if the errors branch is
 *              somebody else's (propose.ts)
 *              active → updating → active
 *              any of these → deleting → purging → deleted
 *
 * It rests in `active`, `stopped` and `deleted`. In each other state one saga is under way. A call begins it (`begin…`):
 * one transaction that writes the state and what is asked for. The engine then goes on with it (`continue…`), at once
 * and, after a crash or when a peer can't be reached, from the alarm. Each step may be done again, and a peer is told
 * before the row that rests on it is written, so a saga is never left half-way.
 *
 * Stops, starts and updates wait for the saga that is under way. A deletion does not, and wins: every step writes only
 * if the state and the life of the pipeline (`uid`) are still the ones it belongs to (whileIn). Steps of jobs check the
 * same (Ledger.step), so no job is made and nothing is leased while jobs are being ended.
 *
 * Each change of state is a new version. The catalogue keeps the highest that it was told, so what arrives late does no
 * harm; the row of a deleted pipeline stays as a tombstone, as the next one of its name counts on from there.
 */

import { type PipelineSpec, skipsBadDatums } from "../../../../protocol/spec.ts";
import { checkSpec } from "../../../core/spec.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { PipelineContext } from "../../context.ts";
import type { CreationRefused, Submitter } from "../../contract.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { type Definition, pipelineMarker } from "../../lifecycle/definition.ts";
import { pipelineRecord } from "../catalogue.ts";
import { whileIn } from "../guards.ts";
import { findStarts } from "../inputs/starts.ts";
import { insertWholeJob, pipelineEvent } from "../jobs.ts";
import { purge } from "./destroy.ts";
import { claimErrors, placeOfOutputs, propose } from "./propose.ts";
import { subscribe } from "./stop-start.ts";

interface Creation extends Submitter {
  readonly spec: PipelineSpec;
}

/** `already-exists`: there is such a pipeline; one that is still being made is gone on with. */
export type CreationBegun = "begun" | "already-exists" | "no-such-commit";

/** Writes down what is to be made. */
export async function beginCreation(
  context: PipelineContext,
  { spec, limited = true, ...came }: Creation,
): Promise<CreationBegun> {
  const { ledger, peers } = context;
  const by = { key: came.key ?? null, text: came.text ?? null };
  const checked = checkSpec(spec);
  const starts = await findStarts(peers, checked.ok ? checked.inputs : []);
  if (!starts) return "no-such-commit";
  ledger.makeTables();
  await purge(context);
  return ledger.transaction(() => {
    const state = ledger.pipeline.row()?.state;
    const same = JSON.stringify(ledger.pipeline.definition()?.spec) === JSON.stringify(spec);
    if (state === "creating" && same) {
      ledger.pipeline.resubmit({ limited, by });
      return "begun";
    }
    if (state !== undefined && state !== "deleted") return "already-exists";
    // Later than the one before of the name, so that its leases are told from ours (branch/calls/uploads.ts).
    const uid = peers.id(ledger.pipeline.uid());
    ledger.pipeline.begin({ spec, starts, limited }, { uid, by, now: peers.now() });
    const definition = ledger.pipeline.definition();
    for (const [source, address] of (definition?.sources ?? []).entries()) {
      ledger.sources.insert({ source, ...address });
    }
    return "begun";
  });
}

/**
 * Rolls a creation forward: propose and check the edges, claim the output and the errors branch, leave the marker, subscribe to the inputs,
 * tell the catalogue, run. Throws if a peer can't be reached.
 */
export async function continueCreation(context: PipelineContext): Promise<CreationRefused | "done"> {
  const { ledger, peers } = context;
  const definition = ledger.pipeline.definition();
  if (!definition || !isCreating(ledger, definition.uid)) return "done";
  const { name, uid, sources: inputs, output } = definition;
  const skips = skipsBadDatums(definition.spec);
  const circle = await propose(context, uid, { name, uid, inputs, output, errors: skips });
  if (circle) {
    refuse(ledger, definition);
    return { ok: false, reason: "circle", circle };
  }
  if (!(await claim(context, definition))) return { ok: false, reason: "output-exists" };
  if (skips && !(await claimErrorsToo(context, definition))) {
    refuse(ledger, definition);
    return { ok: false, reason: "errors-exist" };
  }
  const marker = JSON.stringify({ pipeline: definition.name, uid: definition.uid });
  await peers.blobs.put(pipelineMarker(definition.name), new TextEncoder().encode(marker));
  for (const source of ledger.sources.unsubscribed()) {
    await subscribe(context, { definition, state: "creating", source });
  }
  // The version is read while the creation stands: a deletion that began meanwhile has a higher one and wins.
  if (!isCreating(ledger, definition.uid)) return "done";
  await peers.catalogue.pipelines.record(
    pipelineRecord(ledger, definition, { state: "active", deleted: false }),
  );
  whileIn(ledger, {
    uid: definition.uid,
    state: "creating",
    work: (tx) => activate(tx, context, definition),
  });
  await peers.fleet.wake();
  return "done";
}

/** Undone as a deletion is: a creation that a crash interrupted may have come further the first time. */
function refuse(ledger: Ledger, { uid }: Definition): void {
  whileIn(ledger, {
    ...{ uid, state: "creating" },
    work() {
      ledger.pipeline.set({ keepOutput: 0 });
      ledger.pipeline.setState("deleting");
    },
  });
}

/** Returns false if the branch is somebody else's. */
async function claim({ ledger, peers }: PipelineContext, definition: Definition): Promise<boolean> {
  const { name, uid, output } = definition;
  if (ledger.pipeline.row()?.epoch !== null) return true;
  const place = await placeOfOutputs(peers, definition);
  const claimed = await peers.branch(output, place).output.claim({ pipeline: name, uid, place });
  if (!claimed.ok && claimed.reason === "catalogue-unavailable") {
    throw new Error("the catalogue can't be reached");
  }
  whileIn(ledger, {
    uid,
    state: "creating",
    // Nobody has heard of a pipeline that is refused: its rows go, and the catalogue is told nothing.
    work: () =>
      claimed.ok ? ledger.pipeline.set({ epoch: claimed.epoch }) : ledger.pipeline.setState("purging"),
  });
  return claimed.ok;
}

/** The same for the errors branch. */
async function claimErrorsToo(context: PipelineContext, definition: Definition): Promise<boolean> {
  const { uid } = definition;
  const claimed = await claimErrors(context, definition);
  if (!claimed.ok && claimed.reason === "catalogue-unavailable") {
    throw new Error("the catalogue can't be reached");
  }
  if (claimed.ok) {
    whileIn(context.ledger, { uid, state: "creating", work: () => context.ledger.errorsClaim.settle(uid) });
  }
  // One that is being deleted is refused nothing more.
  return claimed.ok || claimed.reason === "gone";
}

/** From here on events make jobs. If every input has data already, one job is made for what is there. */
function activate(tx: Tx, context: PipelineContext, definition: Definition): void {
  const { pipeline, sources } = context.ledger;
  pipeline.setState("active");
  // What the catalogue was told is true from now on.
  pipeline.setCatalogueVersion(pipeline.existing.version);
  pipeline.setPullDue(1);
  if (sources.allHaveData()) insertWholeJob(tx, context, pipelineEvent(context.ledger, definition));
}

function isCreating({ pipeline }: Ledger, uid: string): boolean {
  return pipeline.row()?.state === "creating" && pipeline.definition()?.uid === uid;
}
