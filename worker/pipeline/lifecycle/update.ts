import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import type { PipelineSpec } from "../../../protocol/spec.ts";
import { checkSpec } from "../../core/spec.ts";
import type { Tx } from "../../sqlite/transaction.ts";
import type { PipelineContext } from "../context.ts";
import type { Definition, Revision } from "../definition.ts";
import type { Source } from "../inputs/source-store.ts";
import { findStarts, holdsFile, lastStart } from "../inputs/starts.ts";
import { ALL_COLLECTED } from "../jobs/job-store.ts";
import { insertJob, insertWholeJob, pipelineEvent } from "../jobs/make.ts";
import { whileIn } from "../ledger/guards.ts";
import { endAllJobs } from "./end-all-jobs.ts";
import { type SpecChange, specChange } from "./spec-change.ts";
import { subscribe } from "./subscribe.ts";

export interface Update {
  readonly spec: PipelineSpec;
  /** Datums that have a result run again, whether the specification changed or not. */
  readonly reprocess: boolean;
}

/** `busy`: the pipeline neither runs nor is stopped; `begun`: done, or written down to be done. */
export type UpdateBegun = "busy" | "other-output" | "no-such-commit" | "unchanged" | "begun";

/**
 * Begins an update.
 *
 * What only says how the work is done (workers, tries, times) holds from now on, for the jobs that run as well, and
 * one job is made for where the inputs were read to. What says what is computed, or from what, ends the jobs of the
 * version before; the one job that is made then reads the inputs whole, so what those would have done is in it. A
 * stopped pipeline stays stopped: its start makes that job. An update that changes nothing is none.
 */
export async function beginUpdate(parts: PipelineContext, { spec, reprocess }: Update): Promise<UpdateBegun> {
  const { ledger, peers } = parts;
  const checked = checkSpec(spec);
  const before = ledger.pipeline.definition()?.inputs;
  const starts = await findStarts(peers, checked.ok ? checked.inputs : [], before);
  if (!starts) return "no-such-commit";
  return ledger.transaction((tx) => {
    const state = ledger.pipeline.row()?.state;
    const definition = ledger.pipeline.definition();
    if (!definition || (state !== "active" && state !== "stopped")) return "busy";
    const change = specChange(definition.spec, spec);
    if (change.outputBranch) return "other-output";
    const readsWhole = reprocess || change.transform || change.inputs;
    if (!readsWhole && !change.settings) return "unchanged";
    ledger.pipeline.setNextRevision(
      { ...nextVersion(definition, { spec, reprocess, change }), starts },
      peers.now(),
    );
    if (state === "stopped") {
      revise(tx, parts, definition);
      if (readsWhole || change.egress) ledger.pipeline.setWholeJobDue(1);
    } else if (readsWhole) ledger.pipeline.setState("updating");
    else {
      revise(tx, parts, definition);
      repeat(tx, parts);
    }
    return "begun";
  });
}

/** Results are kept for a version that computes the same. */
function nextVersion(
  before: Definition,
  { spec, reprocess, change }: Update & { change: SpecChange },
): Omit<Revision, "starts"> {
  const revision = before.revision + 1;
  return { revision, spec, salt: reprocess || change.transform ? String(revision) : before.salt };
}

/** One job for where the inputs are, in which nothing has changed. */
function repeat(tx: Tx, parts: PipelineContext): void {
  const { ledger, peers } = parts;
  const definition = ledger.pipeline.definition();
  // The time that jobs may take may be another one now.
  ledger.timers.arm("jobs", peers.now());
  if (!definition || ledger.pipeline.row()?.hadFirstJob !== 1) return;
  insertJob(tx, parts, { ...pipelineEvent(ledger, definition), fill: ALL_COLLECTED });
}

/** Rolls an update forward; each step may be done again. Throws where a peer can't be reached. */
export async function continueUpdate(parts: PipelineContext): Promise<void> {
  const { ledger, peers } = parts;
  const before = ledger.pipeline.definition();
  if (!before || ledger.pipeline.row()?.state !== "updating") return;
  const { uid } = before;
  if (ledger.pipeline.hasNextRevision()) {
    await endAllJobs(parts, { definition: before, reason: "the pipeline was updated" });
    whileIn(ledger, { uid, state: "updating", work: (tx) => revise(tx, parts, before) });
  }
  const definition = ledger.pipeline.definition();
  if (definition?.uid !== uid) return;
  for (const source of leftBehind(parts, definition)) await peers.branch(source).unsubscribe({ uid });
  for (const source of ledger.sources.all()) await follow(parts, { definition, source });
  whileIn(ledger, { uid, state: "updating", work: (tx) => run(tx, parts, definition) });
}

/** The version that waits takes the place of this one; a branch that both read is read on from where it was. */
function revise(_: Tx, { ledger }: PipelineContext, before: Definition): void {
  ledger.pipeline.revise();
  const present = ledger.pipeline.definition();
  if (!present) return;
  const change = specChange(before.spec, present.spec);
  if (change.egress) ledger.egress.move();
  if (!change.inputs) return;
  ledger.sources.replace(present.sources);
  ledger.pipeline.setHadFirstJob(0);
}

/** What only the version before read. */
function leftBehind({ ledger }: PipelineContext, { revision, sources }: Definition): BranchAddress[] {
  const present = new Set(sources.map(bucketName));
  const before = ledger.pipeline.definitionAt(revision - 1)?.sources ?? [];
  return before.filter((source) => !present.has(bucketName(source)));
}

/** A branch that the version before read too is subscribed to; what of it belongs to the inputs may be another part. */
async function follow(
  parts: PipelineContext,
  { definition, source }: { definition: Definition; source: Source },
): Promise<void> {
  const { ledger, peers } = parts;
  const { uid } = definition;
  if (ledger.sources.unsubscribed().some((other) => other.source === source.source)) {
    await subscribe(parts, { definition, state: "updating", source });
    return;
  }
  // Since the first job nobody kept whether a branch holds files; other inputs ask that again.
  if (ledger.pipeline.row()?.hadFirstJob === 1) return;
  const start = lastStart(definition, source.source);
  const hasData = await holdsFile(peers.branch(source), { at: source, start });
  whileIn(ledger, { uid, state: "updating", work: () => ledger.sources.setHasData(source.source, hasData) });
}

function run(tx: Tx, parts: PipelineContext, definition: Definition): void {
  const { pipeline, sources } = parts.ledger;
  pipeline.setState("active");
  pipeline.setPullDue(1);
  if (pipeline.row()?.hadFirstJob === 1 || sources.allHaveData()) {
    insertWholeJob(tx, parts, pipelineEvent(parts.ledger, definition));
  }
}
