/*
 * How jobs end. They do so in their order, as each output commit builds upon the one before: only the oldest job that
 * has not ended comes to its end here, step by step. In brackets: what a step writes down.
 *
 *  1. Take over [attempts, jobs.tookOver]: the datums that the jobs before left undone are queued in this one. With
 *     that the job's turn begins: jobTimeout counts from here.
 *  2. Run [attempts, results; jobs.open, jobs.failed, jobs.bad]: runners do it. Once no datum is open, the job fails
 *     if one failed. With `onDatumFailure: "skip"` it fails only if one failed through no fault of its own, or if all
 *     that ran failed: it goes on without the *bad* datums, which failed by their own fault after all their tries. Each
 *     other datum has a result now, and the output is made; `ending` says how far that is:
 *  3. clear: removes what an end that was given up left of 4 and 5.
 *  4. died, born (collect.ts) [changed]: which datums went and came since the last output commit says what changes. A
 *     bad one contributes nothing. If there are bad datums, or were some, two steps come before: cured and noted
 *     (bad-datums.ts) say which are bad no more and which are now.
 *  5. plan (plan-output.ts) [operations, tasks]: what becomes of each changed path. What several datums write to one path is
 *     merged by runners; the job waits for those tasks. At the end the job is marked [jobs.committing,
 *     jobs.committingAt]: the branch may commit from here on, so that only its answer ends the job. What the job changes
 *     of what is told of bad datums is committed first, to the branch `errors` (bad-datums.ts).
 *  6. stage (commit.ts): a commit that is too large for one call goes to the branch in pages.
 *  7. commit (commit.ts): the branch commits. It knows the commit by the job's id, so asking twice is asking once.
 *  8. publish (commit.ts) [jobs.outputCommit, published, made, egress_pending, pipeline.committed]: records what was
 *     committed, which is what step 4 of the next job starts from. Without egress the job has ended well.
 *  9. push (push-output.ts) [jobs.state]: the mark is taken back, and runners send what is pending to the external store.
 *     If results go to another store by now: forget what is pending, list the whole output, and push that.
 *
 * Who wins:
 *  - A stop, a timeout, or an outcome that fails the whole job, against this loop: each ends the job in one
 *    transaction that looks at the mark (work/jobs.ts). Before the mark they win: each later step finds that the job
 *    has ended and does nothing (work/guards.ts), and the next job clears what is left. While the mark stands the
 *    commit wins. After it they win again: egress ends, and what was committed stays.
 *  - The pipeline is stopped, updated or deleted: steps are done only while it runs, so the loop comes to rest. Then
 *    work/saga/stop-start.ts takes a marked job through 6 to 8 and ends all others early.
 *  - An outcome that comes after the end: a lease of a job that has ended is lost, so nothing is recorded.
 *  - Two at once: the loop runs once at a time, and stop-start.ts waits until it rests. A wake meanwhile finds that
 *    the pipeline does not run.
 *  - A result or a content that is gone before the commit: the mark is taken back, the datum or the merge is done
 *    again, and the end begins again.
 *  - Somebody else took the output branch, or deleted it: we claim it again and send every page again. If it can't be
 *    claimed, the job fails.
 *  - A crash: goes on with the step that is written down. Each may be done again.
 */

import { skipsBadDatums } from "../../../../protocol/spec.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { DatumName } from "../../attempts/attempt-store.ts";
import type { JobWork, PipelineContext } from "../../context.ts";
import { TOOK_OVER } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { EndingStep } from "../../output/draft-store.ts";
import { failureText } from "../../output/reasons.ts";
import { endStep, runningStep } from "../guards.ts";
import { failOldest } from "../jobs.ts";
import { errorsCommit, firstStep, noteBad, noteCured, recordErrors } from "./bad-datums.ts";
import { collectChanges } from "./collect.ts";
import { makeCommit, outputCommit, recordCommit, redoDatum, stageCommit } from "./commit.ts";
import { outputStep, planOutput } from "./plan-output.ts";
import { awaitEgress, forgetPending, listOutput } from "./push-output.ts";

/** Whether the oldest job can go on without a runner. */
export function oldestGoesOn({ jobs, tasks, egress }: Pick<Ledger, "jobs" | "tasks" | "egress">): boolean {
  const job = jobs.oldest();
  if (!job || job.state === "starting") return false;
  if (job.tookOver !== TOOK_OVER) return true;
  const waits = tasks.has(job.n) || (job.state === "egressing" && egress.free(1) > 0 && !egress.hasMoved);
  return job.open === 0 && !waits;
}

/** Undone datums taken over in one transaction. */
const TAKE_OVER = 500;
/** Jobs looked back at between two turns of others. */
const JOBS_PER_TURN = 50;
/** Rows of an end that was given up removed in one transaction. */
const CLEAR = 1000;
/** Tasks of one, each with what it was to send. */
const CLEAR_TASKS = 20;

/** Takes the oldest job on until it waits for runners, and then the next one. */
export async function advanceOldestJob(context: PipelineContext): Promise<void> {
  const { ledger } = context;
  for (;;) {
    const definition = ledger.active();
    const job = definition && ledger.jobs.oldest();
    if (!definition || !job || job.state === "starting") return;
    // What a job before it left undone is known only when its attempts have been called off.
    const [calledOff = job.n] = ledger.jobs.toCallOff(1);
    if (calledOff < job.n) return;
    const oldest = { ...context, definition, job };
    if (job.tookOver !== TOOK_OVER) {
      await takeOver(oldest);
      continue;
    }
    if (job.open > 0) return;
    const failure = failureOf(oldest);
    if (failure !== undefined) failOldest(oldest, failure);
    else if (!(await finishStep(oldest))) return;
    if (!goesOnAtOnce(ledger)) await yieldToOthers();
  }
}

/** Changed paths of a job whose end is one slice. */
const FEW = 30;

/**
 * Whether the next step of the end comes in the same turn, so that one flush is enough for both: what the job changes is
 * known and little. At `push` all that is left is to look.
 */
function goesOnAtOnce({ ending, changed }: Ledger): boolean {
  const step = ending.get()?.at.step;
  return step === "push" || ((step === "plan" || step === "commit") && changed.hasAtMost(FEW));
}

/**
 * Why the job fails whose datums have all been tried; undefined: it goes on. Once its output may be committed, only the
 * branch says that, whatever an update makes of failed datums meanwhile.
 */
function failureOf({ ledger: { attempts }, definition, job }: JobWork): string | undefined {
  const isDecided = job.committing === 1 || job.state === "egressing";
  if (job.failed === 0 || isDecided) return undefined;
  const skips = skipsBadDatums(definition.spec);
  const allBad = job.failed === job.bad;
  if (skips && allBad && job.processed > 0) return undefined;
  const [any] = attempts.failed(job.n, { after: null, limit: 1 });
  const first = skips && !allBad ? attempts.firstNotBad(job.n) : any;
  const text = first ? failureText(definition, { first, count: job.failed }) : "a datum failed";
  return skips && allBad ? `every datum that ran failed: ${text}` : text;
}

/**
 * One of the steps 3 to 9. Returns false if the job can't go on before runners have done something. Throws if a peer
 * can't be reached.
 */
export async function finishStep(oldest: JobWork): Promise<boolean> {
  const at = stepOf(oldest);
  switch (at.step) {
    case "clear":
      clear(oldest);
      return true;
    case "died":
    case "born": {
      const lacking = collectChanges(oldest, at);
      if (lacking) redoDatum(oldest, lacking);
      return true;
    }
    case "cured":
      noteCured(oldest, at.after);
      return true;
    case "noted":
      noteBad(oldest, at.after);
      return true;
    case "errors-stage":
      await stageCommit(oldest, errorsCommit(oldest), at.after);
      return true;
    case "errors-commit":
      await makeCommit(oldest, errorsCommit(oldest), at);
      return true;
    case "errors-record":
      recordErrors(oldest, { hasFiles: at.hasFiles, next: () => outputStep(oldest.ledger) });
      return true;
    case "plan":
      return planOutput(oldest);
    case "stage":
      await stageCommit(oldest, outputCommit(oldest), at.after);
      return true;
    case "commit":
      await makeCommit(oldest, outputCommit(oldest), at);
      return true;
    case "publish":
      recordCommit(oldest);
      return true;
    case "push":
      return awaitEgress(oldest);
    case "forget":
      forgetPending(oldest);
      return true;
    case "list":
      await listOutput(oldest, at.after);
      return true;
  }
}

/** What the end of another job left goes first. */
function stepOf({ ledger, job }: JobWork): EndingStep {
  const last = ledger.ending.get();
  if (!last) return firstStep(ledger, job);
  return last.job === job.n ? last.at : { step: "clear" };
}

/**
 * Datums that the oldest job inherited and that have no result: those that failed in the job before, or were called
 * off in it, and are still alive. They get rows only now, so that such a datum costs each later job nothing until it
 * is its turn. A job that ended before its turn took nothing over: then what its own predecessor left counts too.
 */
async function takeOver(oldest: JobWork): Promise<void> {
  const { ledger, peers, job, definition } = oldest;
  runningStep(oldest, () => ledger.pipeline.set({ turn: job.n }));
  for (let from = job.n - 1; from > 0; from--) {
    await takeOverFrom(oldest, from);
    if (ledger.jobs.get(from)?.tookOver === TOOK_OVER) break;
    if (from % JOBS_PER_TURN === 0) await yieldToOthers();
  }
  const now = peers.now();
  runningStep(oldest, () => {
    ledger.jobs.beginTurn(job.n, { now, timeoutMs: definition.jobTimeoutMs });
  });
}

async function takeOverFrom(oldest: JobWork, from: number): Promise<void> {
  const { ledger, memory, job } = oldest;
  for (const left of [ledger.attempts.failed, ledger.attempts.killed]) {
    let after: string | null = null;
    for (let more = true; more; ) {
      const page = runningStep(oldest, () => {
        const rows = left.call(ledger.attempts, from, { after, limit: TAKE_OVER });
        const isLeft = ({ id }: DatumName) => ledger.datums.aliveAt(id, job.n) && !ledger.results.has(id);
        ledger.attempts.add(job.n, rows.filter(isLeft));
        return rows;
      });
      after = page?.at(-1)?.key ?? null;
      more = page?.length === TAKE_OVER;
      memory.queued.wakeOne();
      if (more) await yieldToOthers();
    }
  }
}

function clear(oldest: JobWork): void {
  const { ledger } = oldest;
  const { changed, operations, errorChanges, tasks, egress, ending } = ledger;
  endStep(oldest, () => {
    if (changed.take(CLEAR).length === CLEAR || operations.clear(CLEAR)) return;
    if (errorChanges.take(CLEAR).length === CLEAR) return;
    const left = tasks.some(CLEAR_TASKS);
    for (const { id, kind } of left) {
      if (kind === "egress") egress.release(id);
      tasks.drop(id);
    }
    if (left.length < CLEAR_TASKS) ending.set(oldest.job.n, firstStep(ledger, oldest.job));
  });
}
