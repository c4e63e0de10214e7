/*
 * What goes with commits of the output branch that are kept no more. In brackets: what is written down.
 *
 *  1. The branch calls (`outputKept`) [pipeline.outputDue]: it keeps fewer commits, since it was told to or as new ones
 *     came, or a tag is gone. It repeats that until it is answered. By default a branch keeps all commits, and never calls.
 *  2. Look [jobs.released; pipeline.releasedTo, freedTo]: the branch is asked for the commits of jobs, oldest first,
 *     until it has all that are asked for. A commit that is kept no more is never kept again, so an answer does not
 *     become wrong on its way.
 *  3. Free [results, outputs, made; given_up]: a row goes if no job that has it has a commit that is kept.
 *      - `made` has the births and deaths of what datums wrote.
 *      - A result belongs to the jobs from the one that made it to the one with which the last of its datums went. Of that
 *        the set of datums keeps only what is newer than the last commit, so it is written down with the result when a
 *        datum's row goes [results.died]. As long as any datum has it, in the newest job or one that has not ended,
 *        a result stays, whatever commits are kept: what has not changed never runs again for that.
 *     Rows are looked at in the order in which they ended, and only once: those that ended by `freedTo` have been looked
 *     at, and what was left of them is needed by one commit alone. When that goes, `freedTo` falls back to it.
 *  4. The rows of jobs go that have no commit which is kept, once they are listed no more either (trim.ts).
 *
 * The files of a commit are the branch's own affair, and stay or go by what it keeps, whatever is done here. What results
 * hold beside that is let go of with them (uploads.ts).
 */

import { renewRewrite } from "../../../objects/rewrite.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { Ended, ResultKey } from "../../attempts/result-store.ts";
import type { PipelineContext } from "../../context.ts";
import { oldestListed, oldestShown } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { StoredState } from "../../lifecycle/pipeline-store.ts";
import type { DeadPlace, MadePlace } from "../../output/published-store.ts";
import { endGivenUp } from "./uploads.ts";

/** Rows looked at, or removed, in one transaction. */
const SLICE = 500;

/** What was merged is kept until so many jobs have been committed without it. */
const MERGES_KEPT = 100;

/** While a pipeline is in these states, what it needs no more goes. */
const TRIMMED: readonly StoredState[] = ["active", "stopped"];

/**
 * Removes rows that nobody will read again, so that a job costs the same after many others: elements that no
 * unfinished job has, datums that died before the last output commit, attempts and logs of jobs long past, results of
 * another salt once no output is made of them, what was merged long ago, and what no commit needs that the output branch
 * keeps. The output branch releases what was uploaded for it. The newest 1,000 jobs keep what they ran, datum by
 * datum; D1 keeps the newest jobs of each pipeline. In slices;
 * what a crash leaves goes after the next job's end.
 */
export async function trim(context: PipelineContext): Promise<void> {
  const { ledger, peers } = context;
  await inSlices(() => ledger.elements.trim(oldestRead(), SLICE));
  await inSlices(() => ledger.datums.forgetBirths(ledger.pipeline.existing.committed, SLICE));
  await inSlices(() => {
    const dead = ledger.datums.trim(ledger.pipeline.existing.committed, SLICE);
    if (dead.length > 0) ledger.results.outlive(dead);
    return dead.length === SLICE;
  });
  await inSlices(() => ledger.attempts.trim(oldestShown(ledger.jobs, peers.keptJobs), SLICE));
  await inSlices(() => ledger.logs.trim(oldestShown(ledger.jobs, peers.keptJobs), SLICE));
  let after: ResultKey | null = { id: "", salt: "" };
  await inSlices(() => {
    const { staleUntil, committed } = ledger.pipeline.existing;
    if (staleUntil === null || committed < staleUntil || after === null) return false;
    after = ledger.results.trim(after, SLICE);
    if (after === null) ledger.pipeline.set({ staleUntil: null });
    return after !== null;
  });
  if (isTrimmed(ledger)) await lookAtOutput(context);
  await freeUnneeded(context, inSlices);
  await inSlices(() => ledger.jobs.removeSpare(oldestNeeded(), SLICE));
  await trimCodes(context, inSlices);
  await trimMerges(context);
  payLater(context, oldestShown(ledger.jobs, peers.keptJobs));
  if (isTrimmed(ledger)) await endGivenUp(context);
  if (isTrimmed(ledger)) await unlistJobs(context);

  /** A job reads elements that were alive at it. */
  function oldestRead(): number {
    return ledger.jobs.oldest()?.n ?? ledger.jobs.newest()?.n ?? 0;
  }

  /** Jobs before this one are neither listed nor show what they ran. */
  function oldestNeeded(): number {
    return Math.min(ledger.pipeline.existing.unlisted, oldestShown(ledger.jobs, peers.keptJobs));
  }

  async function inSlices(slice: () => boolean): Promise<void> {
    while (isTrimmed(ledger) && ledger.transaction(slice)) await yieldToOthers();
  }
}

/**
 * What went just now may have named what was erased: then the database is to be written anew. `shown`: jobs before this one
 * keep nothing of what they ran.
 */
function payLater({ ledger, peers }: PipelineContext, shown: number): void {
  const last = ledger.erasures.lastJob();
  if (last === undefined) return;
  ledger.transaction((tx) => {
    renewRewrite(ledger.sql);
    if (last >= shown) return;
    ledger.oweRewrite(tx, peers.now());
    ledger.erasures.forgetJobs();
  });
}

function isTrimmed({ exists, pipeline }: Ledger): boolean {
  const state = exists ? pipeline.row()?.state : undefined;
  return state !== undefined && TRIMMED.includes(state);
}

/** Whether the catalogue has so many more jobs than are listed that it is worth a call: a hundredth. */
function hasUnlisted({ jobs, pipeline }: Ledger, { keptJobs }: { keptJobs: number }): boolean {
  return (
    oldestListed(jobs, keptJobs) - pipeline.existing.unlisted >= Math.min(100, Math.ceil(keptJobs / 100))
  );
}

/**
 * Removes jobs from the catalogue that are listed no more. By ids, so that what an earlier life of the pipeline left, or a
 * write that came late, goes along. Throws if the catalogue can't be reached.
 */
async function unlistJobs({ ledger, peers }: PipelineContext): Promise<void> {
  const definition = ledger.pipeline.definition();
  if (!definition || !hasUnlisted(ledger, peers)) return;
  const { name, uid } = definition;
  const from = oldestListed(ledger.jobs, peers.keptJobs);
  const upTo = ledger.jobs.idBefore(from);
  if (upTo !== undefined) {
    while (await peers.catalogue.jobs.remove({ pipeline: name, upTo })) await yieldToOthers();
  }
  ledger.transaction(() => {
    if (ledger.pipeline.uid() === uid) ledger.pipeline.set({ unlisted: from });
  });
}

/** So many new codes make it worth looking for those that nothing names. */
const CODES_WORTH_A_LOOK = 1000;
/** Rows looked at in one transaction. */
const LOOKED_AT = 2000;

/**
 * Forgets codes that neither a result nor the history of outputs names. Who gets a code while the rows are looked through
 * is noted by the store. A row of the history takes its code from a result: so the results are looked through first.
 */
async function trimCodes(
  { ledger }: PipelineContext,
  inSlices: (slice: () => boolean) => Promise<void>,
): Promise<void> {
  const { codes, results, makers, pipeline } = ledger;
  const newest = codes.newest();
  const { codesSwept } = pipeline.existing;
  const fresh = newest - codesSwept;
  // At least half of them are new, so that rows are not looked through for a few.
  if (fresh < CODES_WORTH_A_LOOK || 2 * fresh < codes.count()) return;
  const named = codes.beginSweep();
  try {
    let result: ResultKey | null = { id: "", salt: "" };
    await inSlices(() => {
      if (!result) return false;
      const page = results.codes(result, LOOKED_AT);
      named.add(page.codes);
      result = page.next;
      return result !== null;
    });
    let made: MadePlace | null = { path: "", born: 0, key: "" };
    await inSlices(() => {
      // Broken off: nothing is known.
      if (!made || result) return false;
      const { rows, next } = makers.page(made, LOOKED_AT);
      named.add(rows.flatMap(({ code }) => code ?? []));
      made = next;
      return made !== null;
    });
    await inSlices(() => {
      if (result || made) return false;
      if (codes.removeUnnamed(newest, SLICE)) return true;
      pipeline.set({ codesSwept: newest });
      return false;
    });
  } finally {
    codes.endSweep();
  }
}

/** A merge is marked before the branch lets go of its content, so that no commit builds upon one in between. */
async function trimMerges({ ledger, peers }: PipelineContext): Promise<void> {
  const { merges, pipeline } = ledger;
  const oldest = (): number => pipeline.existing.committed - MERGES_KEPT;
  while (ledger.active() && ledger.transaction(() => merges.retire(oldest(), SLICE))) await yieldToOthers();
  for (;;) {
    const definition = ledger.active();
    const merge = definition && merges.retired();
    if (!merge) return;
    if (merge.upload !== null) await peers.branch(definition.output).uploads.abort({ upload: merge.upload });
    ledger.step(definition, () => merges.forget(merge.id));
  }
}

/** Whether others are to hear of what is needed no more, or the output branch has news. */
export function hasToTrim({ ledger, peers }: PipelineContext): boolean {
  const { pipeline, givenUp, merges } = ledger;
  const { outputDue, releasedTo, freedTo } = pipeline.existing;
  if (givenUp.some(1).length > 0 || outputDue > 0) return true;
  // What the output branch keeps no more is known, and not all of it is removed.
  if (releasedTo > 0 && freedTo <= releasedTo) return true;
  return hasUnlisted(ledger, peers) || (ledger.active() !== undefined && merges.retired() !== undefined);
}

/** Commits asked for in the first call, and most in a later one. */
const FIRST_PAGE = 20;
const LAST_PAGE = 500;

/** Step 2. Throws if the branch can't be reached: asked again later. */
async function lookAtOutput({ ledger, peers }: PipelineContext): Promise<void> {
  for (;;) {
    const definition = ledger.pipeline.definition();
    const news = ledger.pipeline.existing.outputDue;
    if (!definition || news === 0) return;
    const { uid, output } = definition;
    const branch = peers.branch(output);
    let limit = FIRST_PAGE;
    for (let after = 0; ; ) {
      const page = ledger.jobs.keptAfter(after, limit);
      const last = page.at(-1);
      if (!last) break;
      const { kept } = await branch.feed.kept({ commits: page.map(({ outputCommit }) => outputCommit) });
      const stays = new Set(kept);
      const gone = page.filter(({ outputCommit }) => !stays.has(outputCommit)).map(({ n }) => n);
      if (ledger.pipeline.uid() !== uid) return;
      release(gone);
      after = last.n;
      limit = Math.min(LAST_PAGE, 2 * limit);
      // What is kept without a gap begins after the last one that is not.
      if (gone.length === 0 && after > ledger.pipeline.existing.releasedTo) break;
      await yieldToOthers();
    }
    ledger.transaction(() => {
      if (ledger.pipeline.uid() === uid) ledger.pipeline.settleOutputNews(news);
    });
  }

  function release(gone: readonly number[]): void {
    const [first, last] = [gone[0], gone.at(-1)];
    if (first === undefined || last === undefined) return;
    ledger.transaction(() => {
      ledger.jobs.release(gone);
      ledger.pipeline.setReleased({ first, last });
    });
  }
}

/** Step 3, in slices that `inSlices` runs until one returns false, or the pipeline is about to change its state. */
export async function freeUnneeded(
  { ledger }: PipelineContext,
  inSlices: (slice: () => boolean) => Promise<void>,
): Promise<void> {
  const { pipeline, jobs, results, makers } = ledger;
  const { releasedTo, freedTo } = pipeline.existing;
  // What ended with the first commit that is kept without a gap, or before, may be of none that is.
  const until = releasedTo === 0 ? 0 : (jobs.keptAfter(releasedTo, 1)[0]?.n ?? releasedTo + 1);
  if (until <= freedTo) return;
  let result: Ended | null = { died: freedTo + 1, id: "", salt: "" };
  await inSlices(() => {
    if (result) result = results.free(result, { until, limit: SLICE });
    return result !== null;
  });
  let made: DeadPlace | null = { died: freedTo + 1, path: "", born: 0, key: "" };
  await inSlices(() => {
    if (made) made = makers.free(made, { until, limit: SLICE });
    return made !== null;
  });
  // Not if it was broken off. A look that came in between, whose commits are yet to be freed, has its turn after this.
  await inSlices(() => {
    if (result === null && made === null && pipeline.existing.freedTo === freedTo)
      pipeline.set({ freedTo: until });
    return false;
  });
}
