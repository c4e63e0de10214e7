/*
 * For each dirty path, the path and its parent directories are tested against the glob. What matches is an entry of the
 * input. A directory's identity is a digest over what is under it. Entries and datums live by births and deaths, counted in
 * jobs, so a job costs what changed. A new datum whose id has a result is skipped.
 */

import { yieldToOthers } from "../../../objects/turns.ts";
import type { JobContext, PipelineContext } from "../../context.ts";
import { candidates, inputsOf, readersOf } from "../../inputs/candidates.ts";
import { ALL_COLLECTED, type Fill } from "../../jobs/job-store.ts";
import { fillingStep } from "../guards.ts";
import { endEarly } from "../jobs/end.ts";
import { writtenSince } from "./starts.ts";
import { excessOf, updateDatums } from "./update-datums.ts";

/** Paths collected, or rows removed, in one transaction. */
const PAGE = 500;

/** Small jobs filled before other calls get their turn. */
const JOBS_PER_TURN = 10;

/**
 * Works out the datums of every job that waits for them, one job after the other, in slices. One slice does what the
 * job's `fill` says and writes what comes next (pull.ts tells the whole way).
 */
export async function fillJobs(context: PipelineContext): Promise<void> {
  for (let jobs = 0; ; ) {
    const definition = context.ledger.active();
    const job = definition && context.ledger.jobs.nextToFill();
    if (!definition || !job) return;
    const filled = await fillStep(context, { definition, job });
    if (!filled || ++jobs % JOBS_PER_TURN === 0) await yieldToOthers();
  }
}

/** One slice. Returns whether it was the job's last. */
async function fillStep(context: PipelineContext, filling: JobContext): Promise<boolean> {
  const { fill } = filling.job;
  if (readWhole(context, filling)) return false;
  switch (fill.step) {
    case "forget":
      forget(context, filling);
      return false;
    case "snapshot":
      await collectSnapshot(context, { ...filling, at: fill });
      return false;
    case "changes":
      await collectChanges(context, { ...filling, at: fill });
      return false;
    case "clear":
      collectCleared(context, { ...filling, at: fill });
      return false;
    default: {
      const reason = excessOf(context.ledger, filling);
      return reason === undefined ? updateDatums(context, filling) : giveUp(context, { ...filling, reason });
    }
  }
}

/**
 * The job reads its inputs whole: what was there before ends, and what is still there is born again. A datum that has a
 * result keeps it, and the output commit is the difference between results, so nothing is run or written in vain.
 */
function forget({ ledger }: PipelineContext, filling: JobContext): void {
  const { job } = filling;
  fillingStep(ledger, filling, () => {
    const datums = ledger.datums.killSome(job.n, PAGE);
    const done = datums < PAGE && ledger.elements.killSome(job.n, PAGE) < PAGE;
    if (done) ledger.elements.clearSizes();
    const fill: Fill = done ? { step: "snapshot", view: 0, after: "" } : { step: "forget" };
    ledger.jobs.setFill(job.n, { fill, total: ledger.pipeline.addAlive(-datums) });
  });
}

/** Every file that belongs to the inputs is new: one page of one view. */
async function collectSnapshot(
  { ledger, peers }: PipelineContext,
  filling: JobContext & { at: Extract<Fill, { step: "snapshot" }> },
): Promise<void> {
  const { definition, job, at } = filling;
  const view = definition.views[at.view];
  const address = view && definition.sources[view.source];
  const position = view && job.positions[view.source];
  if (!view || !address || !position) {
    fillingStep(ledger, filling, () => setFill(ALL_COLLECTED));
    return;
  }
  const page = await peers
    .branch(address)
    .feed.filesAt({ ...writtenSince(view.start, position), prefix: "", after: at.after, limit: PAGE });
  const changes = page.files.map((file) => ({ path: file.path, now: file }));
  fillingStep(ledger, filling, () => {
    ledger.touched.add(job.n, candidates(changes, inputsOf(definition.inputs, view)));
    setFill(
      page.next === null
        ? { step: "snapshot", view: at.view + 1, after: "" }
        : { step: "snapshot", view: at.view, after: page.next },
    );
  });

  function setFill(fill: Fill): void {
    ledger.jobs.setFill(job.n, { fill, total: job.total });
  }
}

/** A commit that changed more than its feed page held: one more page of its changes. */
async function collectChanges(
  { ledger, peers }: PipelineContext,
  filling: JobContext & { at: Extract<Fill, { step: "changes" }> },
): Promise<void> {
  const { definition, job, at } = filling;
  const address = definition.sources[job.source];
  const position = job.positions[job.source];
  if (!address || !position) throw new Error(`job ${job.id} has no source ${job.source}`);
  const { generation, seq } = position;
  const page = await peers.branch(address).feed.changes({ generation, seq, after: at.after, limit: PAGE });
  fillingStep(ledger, filling, () => {
    ledger.touched.add(job.n, candidates(page.changes, readersOf(definition.inputs, job.source)));
    const fill: Fill = page.next === null ? ALL_COLLECTED : { step: "changes", after: page.next };
    ledger.jobs.setFill(job.n, { fill, total: job.total });
  });
}

/** The branch was deleted: every element of its inputs is gone. */
function collectCleared(
  { ledger }: PipelineContext,
  filling: JobContext & { at: Extract<Fill, { step: "clear" }> },
): void {
  const { definition, job, at } = filling;
  fillingStep(ledger, filling, () => {
    const cleared = definition.inputs[at.input];
    const gone =
      cleared?.source === job.source
        ? ledger.elements.aliveAfter({ input: at.input, after: at.after, limit: PAGE })
        : [];
    const paths = gone.map(({ path }) => path);
    ledger.touched.add(
      job.n,
      paths.map((path) => ({ input: at.input, path, file: null, directory: false })),
    );
    const last = paths.at(-1);
    const fill: Fill = !cleared
      ? ALL_COLLECTED
      : last === undefined
        ? { step: "clear", input: at.input + 1, after: null }
        : { step: "clear", input: at.input, after: last };
    ledger.jobs.setFill(job.n, { fill, total: job.total });
  });
}

/**
 * Fails a job whose cross product is too large. What it was about to make is dropped, so the next job can't build upon
 * it: that one reads its inputs whole. One slice. Returns whether it was the last.
 */
function giveUp(context: PipelineContext, { reason, ...filling }: JobContext & { reason: string }): boolean {
  const { ledger } = context;
  const { job } = filling;
  const done = fillingStep(ledger, filling, (tx) => {
    endEarly(tx, context, { job, state: "failure", reason });
    if (ledger.touched.clear(job.n, PAGE)) return false;
    ledger.pipeline.setNextReadsWhole(1);
    ledger.jobs.setFilled(job.n);
    return true;
  });
  return done ?? false;
}

/** A job behind one that was given up reads its inputs whole. Returns whether this is one. */
function readWhole({ ledger }: PipelineContext, filling: JobContext): boolean {
  if (ledger.pipeline.row()?.nextReadsWhole !== 1) return false;
  fillingStep(ledger, filling, () => {
    ledger.jobs.setFill(filling.job.n, { fill: { step: "forget" }, total: filling.job.total });
    ledger.pipeline.setNextReadsWhole(0);
  });
  return true;
}
