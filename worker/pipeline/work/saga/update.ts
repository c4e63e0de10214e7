import { type BranchAddress, bucketName } from "../../../../protocol/names.ts";
import { skipsBadDatums } from "../../../../protocol/spec.ts";
import { type CatalogueFault, catalogueFault } from "../../../core/catalogue-fault.ts";
import { checkSpec } from "../../../core/spec.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { PipelineContext } from "../../context.ts";
import type { Circle, UpdateCall } from "../../contract.ts";
import type { Source } from "../../inputs/source-store.ts";
import { ALL_COLLECTED } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition, Revision } from "../../lifecycle/definition.ts";
import { type SpecChange, specChange } from "../../lifecycle/spec-change.ts";
import { hasErrors } from "../../lifecycle/version-store.ts";
import { whileIn } from "../guards.ts";
import { startsOf } from "../inputs/low-water.ts";
import { findStarts, holdsFile, lastStart } from "../inputs/starts.ts";
import { insertJob, insertWholeJob, pipelineEvent } from "../jobs.ts";
import { addsEdges, claimErrors, type Edges, propose } from "./propose.ts";
import { endAllJobs, subscribe } from "./stop-start.ts";

/** `busy`: the pipeline neither runs nor is stopped, or another update was first; `begun`: done, or written down to be done. */
type UpdateBegun =
  | NotChecked
  | "errors-exist"
  | "busy"
  | "other-output"
  | "no-such-commit"
  | "unchanged"
  | "begun";

/** Why the edges of an update are not held to be good: there would be a circle, or the catalogue can't be asked. */
type NotChecked = Circle | CatalogueFault;

/**
 * Begins an update.
 *
 * What only says how the work is done (workers, tries, times) holds from now on, for the jobs that run as well, and one
 * job is made for where the inputs were read to. What says what is computed, or from what, ends the jobs of the version
 * before; the one job that is made then reads the inputs whole, so it does what those would have done. A stopped
 * pipeline stays stopped: its start makes that job. Another description is a version without a job. An update that changes nothing makes no version. But it vouches for
 * the present one, which is from then on the caller's. Returns the circle if there would be one.
 */
export async function beginUpdate(context: PipelineContext, request: UpdateCall): Promise<UpdateBegun> {
  const { ledger, peers, memory } = context;
  const checked = checkSpec(request.spec);
  const inputs = checked.ok ? checked.inputs : [];
  const before = ledger.pipeline.definition();
  const starts = await findStarts(peers, inputs, before?.inputs);
  if (!starts) return "no-such-commit";
  const isSame = before?.spec.outputBranch === request.spec.outputBranch;
  if (!before || !isSame || !(addsEdges(before, inputs) || addsErrors(ledger, before, request))) {
    return beginNow(context, { request, starts, inputs, uid: before?.uid, isChecked: false });
  }
  const { name, uid, output } = before;
  const errors = skipsBadDatums(request.spec) || hasErrors(ledger, before);
  const id = peers.id();
  memory.held.add(id);
  try {
    const refused =
      (await checkEdges(context, id, { name, uid, inputs, output, errors })) ??
      (await claimFor(context, before, request));
    return refused ?? beginNow(context, { request, starts, inputs, uid, isChecked: true });
  } finally {
    memory.held.delete(id);
  }
}

async function checkEdges(
  context: PipelineContext,
  id: string,
  edges: Edges,
): Promise<NotChecked | undefined> {
  try {
    return await propose(context, id, edges);
  } catch (error) {
    console.warn("the catalogue can't be asked whether pipelines would go in a circle", error);
    return catalogueFault(error) ?? "catalogue-unavailable";
  }
}

/** Whether an update would have the pipeline write to its errors branch, which it does not yet. */
function addsErrors({ errorsClaim }: Ledger, { uid }: Definition, { spec }: UpdateCall): boolean {
  return skipsBadDatums(spec) && errorsClaim.get(uid)?.settled !== true;
}

/** Claims the errors branch for an update that wants it. Settled with its version, else taken back (propose.ts). */
async function claimFor(
  context: PipelineContext,
  before: Definition,
  request: UpdateCall,
): Promise<"errors-exist" | "catalogue-unavailable" | "busy" | undefined> {
  if (!addsErrors(context.ledger, before, request)) return undefined;
  const claimed = await claimErrors(context, before);
  if (claimed.ok) return undefined;
  return claimed.reason === "gone" ? "busy" : claimed.reason;
}

interface Prepared {
  readonly request: UpdateCall;
  readonly starts: Revision["starts"];
  readonly inputs: readonly BranchAddress[];
  /** Of the pipeline that it was prepared for. */
  readonly uid: string | undefined;
  /** Whether its edges make no circle, whatever the pipeline reads by now. */
  readonly isChecked: boolean;
}

function beginNow(context: PipelineContext, prepared: Prepared): Exclude<UpdateBegun, NotChecked> {
  const { ledger } = context;
  return ledger.transaction((tx) => {
    const state = ledger.pipeline.row()?.state;
    const definition = ledger.pipeline.definition();
    if (!definition || definition.uid !== prepared.uid) return "busy";
    if (state !== "active" && state !== "stopped") return "busy";
    if (definition.spec.outputBranch !== prepared.request.spec.outputBranch) return "other-output";
    // Another update may have taken away meanwhile what this one seemed to have already.
    if (!prepared.isChecked && addsEdges(definition, prepared.inputs)) return "busy";
    if (skipsBadDatums(prepared.request.spec)) {
      // The claim may have been taken back meanwhile, or this update seemed to have it already.
      if ((ledger.errorsClaim.get(definition.uid)?.epoch ?? null) === null) return "busy";
      ledger.errorsClaim.settle(definition.uid);
    }
    return write(tx, context, { ...prepared, definition, state });
  });
}

function write(
  tx: Tx,
  context: PipelineContext,
  { request, starts, definition, state }: Prepared & { definition: Definition; state: "active" | "stopped" },
): "unchanged" | "begun" {
  const { ledger, peers } = context;
  const change = specChange(definition.spec, request.spec);
  const readsWhole = request.reprocess || change.transform || change.inputs;
  const { limited = true } = request;
  const by = { key: request.key ?? null, text: request.text ?? null };
  if (!readsWhole && !change.settings && !change.description) {
    ledger.pipeline.resubmit({ limited, by });
    return "unchanged";
  }
  const next = { ...nextVersion(definition, { ...request, change }), starts, limited };
  ledger.pipeline.setNextRevision(next, { by, now: peers.now() });
  if (state === "stopped") {
    revise(tx, ledger, definition);
    if (readsWhole || change.egress) ledger.pipeline.set({ wholeJobDue: 1 });
  } else if (readsWhole) ledger.pipeline.setState("updating");
  else {
    revise(tx, ledger, definition);
    if (change.settings) repeat(tx, context);
  }
  return "begun";
}

/** Results are kept for a version that computes the same. */
function nextVersion(
  before: Definition,
  { spec, reprocess, change }: UpdateCall & { change: SpecChange },
): Omit<Revision, "starts" | "limited"> {
  const revision = before.revision + 1;
  return { revision, spec, salt: reprocess || change.transform ? String(revision) : before.salt };
}

/** One job for where the inputs are, in which nothing has changed. */
function repeat(tx: Tx, context: PipelineContext): void {
  const { ledger } = context;
  const definition = ledger.pipeline.definition();
  // The time that jobs may take may be another one now.
  ledger.wake("jobTime");
  if (!definition || ledger.pipeline.row()?.hadFirstJob !== 1) return;
  insertJob(tx, context, { ...pipelineEvent(ledger, definition), fill: ALL_COLLECTED });
}

/** Rolls an update forward. Throws if a peer can't be reached. */
export async function continueUpdate(context: PipelineContext): Promise<void> {
  const { ledger, peers } = context;
  const before = ledger.pipeline.definition();
  if (!before || ledger.pipeline.row()?.state !== "updating") return;
  const { uid } = before;
  if (ledger.pipeline.hasNextRevision()) {
    await endAllJobs(context, { definition: before, reason: "the pipeline was updated" });
    whileIn(ledger, { uid, state: "updating", work: (tx) => revise(tx, ledger, before) });
  }
  const definition = ledger.pipeline.definition();
  if (definition?.uid !== uid) return;
  for (const source of leftBehind(ledger, definition)) await peers.branch(source).feed.unsubscribe({ uid });
  for (const source of ledger.sources.all()) await follow(context, { definition, source });
  whileIn(ledger, { uid, state: "updating", work: (tx) => run(tx, context, definition) });
}

/** The version that waits takes the place of this one; a branch that both read is read on from where it was. */
function revise(_: Tx, { pipeline, egress, sources }: Ledger, before: Definition): void {
  pipeline.revise();
  const present = pipeline.definition();
  if (!present) return;
  const change = specChange(before.spec, present.spec);
  if (change.egress) egress.move();
  if (!change.inputs) return;
  sources.replace(present.sources);
  pipeline.set({ hadFirstJob: 0 });
}

/** What only the version before read. */
function leftBehind({ pipeline }: Ledger, { revision, sources }: Definition): BranchAddress[] {
  const present = new Set(sources.map(bucketName));
  const before = pipeline.definitionAt(revision - 1)?.sources ?? [];
  return before.filter((source) => !present.has(bucketName(source)));
}

/** A branch that the version before read too is subscribed to; what of it belongs to the inputs may be another part. */
async function follow(
  context: PipelineContext,
  { definition, source }: { definition: Definition; source: Source },
): Promise<void> {
  const { ledger, peers } = context;
  const { uid } = definition;
  if (ledger.sources.unsubscribed().some((other) => other.source === source.source)) {
    await subscribe(context, { definition, state: "updating", source });
    return;
  }
  // Before a job reads what was written since: the commits that inputs now start after are to be known there.
  const starts = startsOf(definition, source.source);
  if (starts.length > 0)
    await peers.branch(source).feed.subscribe({ uid, pipeline: definition.name, starts });
  // Whether a branch holds files is not kept up to date from the first job on: other inputs ask that again.
  if (ledger.pipeline.row()?.hadFirstJob === 1) return;
  const start = lastStart(definition, source.source);
  const hasData = await holdsFile(peers.branch(source), { at: source, start });
  whileIn(ledger, { uid, state: "updating", work: () => ledger.sources.setHasData(source.source, hasData) });
}

function run(tx: Tx, context: PipelineContext, definition: Definition): void {
  const { pipeline, sources } = context.ledger;
  pipeline.setState("active");
  pipeline.setPullDue(1);
  if (pipeline.row()?.hadFirstJob === 1 || sources.allHaveData()) {
    insertWholeJob(tx, context, pipelineEvent(context.ledger, definition));
  }
}
