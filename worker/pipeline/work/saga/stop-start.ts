import type { Tx } from "../../../objects/transaction.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import type { Source } from "../../inputs/source-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition } from "../../lifecycle/definition.ts";
import type { StoredState } from "../../lifecycle/pipeline-store.ts";
import { finishStep } from "../finish/advance.ts";
import { whileIn } from "../guards.ts";
import { startsOf } from "../inputs/low-water.ts";
import { holdsFile, lastStart } from "../inputs/starts.ts";
import { callOffAttempts, endEarly, insertWholeJob, pipelineEvent } from "../jobs.ts";

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

/** Jobs ended, and rows removed, in one transaction. */
const SLICE = 200;

/**
 * Ends every job that has not ended, for a pipeline that makes none meanwhile. A job whose output may have been
 * committed is brought to its end first: it must not say `killed` of what is in the branch.
 */
export async function endAllJobs(
  context: PipelineContext,
  { definition, reason }: { definition: Definition; reason: string },
): Promise<void> {
  const { ledger } = context;
  // The loop that ends jobs comes to rest, as the pipeline does not run any more: two must not commit at once.
  await context.engine.resting("jobs");
  for (let job = ledger.jobs.committing(); job; job = ledger.jobs.committing()) {
    if (!(await finishStep({ ...context, definition, job }))) break;
    await yieldToOthers();
  }
  for (let more = true; more; ) {
    more = ledger.transaction((tx) => endSome(tx, context, reason));
    if (more) await yieldToOthers();
  }
  await callOffAttempts(context);
  while (ledger.transaction(() => dropFill(ledger))) await yieldToOthers();
}

/** Returns whether there were any. */
function endSome(tx: Tx, context: PipelineContext, reason: string): boolean {
  const { jobs, pipeline } = context.ledger;
  const ended = jobs
    .unfinished(SLICE)
    .filter((job) => endEarly(tx, context, { job, state: "killed", reason }));
  if (ended.length > 0) pipeline.set({ wholeJobDue: 1 });
  return ended.length > 0;
}

/**
 * The next job reads its inputs whole, so nothing builds upon datums that were being worked out. That job is due even
 * if the only such jobs had been stopped before. Returns whether there may be more.
 */
function dropFill({ jobs, pipeline, touched }: Ledger): boolean {
  const unfilled = jobs.unfilled(SLICE);
  if (unfilled.length === 0) return false;
  pipeline.set({ wholeJobDue: 1 });
  for (const { n } of unfilled) {
    // One that has many paths takes several slices.
    if (touched.clear(n, SLICE)) return true;
    jobs.setFilled(n);
  }
  return true;
}

/**
 * Events come from the branch's HEAD on; what lies there already is read as it was at exactly that position, so that no
 * commit is missed or counted twice. A job is due if the branch has moved since it was last read.
 */
export async function subscribe(
  { ledger, peers }: PipelineContext,
  { definition, state, source }: { definition: Definition; state: StoredState; source: Source },
): Promise<void> {
  const { uid, name } = definition;
  const branch = peers.branch(source);
  const starts = startsOf(definition, source.source);
  const { cursor } = await branch.feed.subscribe({ uid, pipeline: name, starts });
  const before = { generation: cursor.generation, seq: cursor.seq - 1 };
  const events = cursor.seq > 0 ? (await branch.feed.read({ cursor: before, limit: 1 })).events : [];
  const commit = events[0]?.kind === "commit" ? events[0].id : null;
  const lineage = events[0]?.lineage;
  const start = lastStart(definition, source.source);
  const hasData = commit !== null && (await holdsFile(branch, { at: cursor, start }));
  whileIn(ledger, { uid, state, work });

  function work(): void {
    const moved = cursor.generation !== source.generation || cursor.seq !== source.seq;
    if (moved) ledger.pipeline.set({ wholeJobDue: 1 });
    ledger.sources.subscribed(source.source, { ...cursor, commit, hasData, ...(lineage && { lineage }) });
  }
}
