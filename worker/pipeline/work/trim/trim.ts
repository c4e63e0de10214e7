import { renewRewrite } from "../../../objects/rewrite.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { ResultKey } from "../../attempts/result-store.ts";
import type { PipelineContext } from "../../context.ts";
import { oldestListed, oldestShown } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { StoredState } from "../../lifecycle/pipeline-store.ts";
import type { MadePlace } from "../../output/published-store.ts";
import { endGivenUp } from "./given-up.ts";
import { freeUnneeded, lookAtOutput } from "./kept.ts";

/** Rows removed in one transaction. */
const SLICE = 500;

/** What was merged is kept until so many jobs have been committed without it. */
const MERGES_KEPT = 100;

/** While a pipeline is in these states, what it needs no more goes. */
const TRIMMED: readonly StoredState[] = ["active", "stopped"];

/**
 * Removes rows that nobody will read again, so that a job costs the same after many others: elements that no
 * unfinished job has, datums that died before the last output commit, attempts and logs of jobs long past, results of
 * another salt once no output is made of them, what was merged long ago, and what no commit needs that the output branch
 * keeps (kept.ts). The output branch releases what was uploaded for it. The newest 1,000 jobs keep what they ran, datum by
 * datum; D1 keeps the newest jobs of each pipeline. In slices;
 * what a crash leaves goes after the next job's end.
 */
export async function trim(context: PipelineContext): Promise<void> {
  const { ledger, peers } = context;
  await inSlices(() => ledger.elements.trim(oldestRead(), SLICE));
  await inSlices(() => {
    const dead = ledger.datums.trim(ledger.pipeline.row()?.committed ?? 0, SLICE);
    if (dead.length > 0) ledger.results.outlive(dead);
    return dead.length === SLICE;
  });
  await inSlices(() => ledger.attempts.trim(oldestShown(ledger.jobs, peers.keptJobs), SLICE));
  await inSlices(() => ledger.logs.trim(oldestShown(ledger.jobs, peers.keptJobs), SLICE));
  let after: ResultKey | null = { id: "", salt: "" };
  await inSlices(() => {
    const { staleUntil = null, committed = 0 } = ledger.pipeline.row() ?? {};
    if (staleUntil === null || committed < staleUntil || after === null) return false;
    after = ledger.results.trim(after, SLICE);
    if (after === null) ledger.pipeline.setStaleUntil(null);
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
    const { unlisted = 0 } = ledger.pipeline.row() ?? {};
    return Math.min(unlisted, oldestShown(ledger.jobs, peers.keptJobs));
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
  const { unlisted = 0 } = pipeline.row() ?? {};
  return oldestListed(jobs, keptJobs) - unlisted >= Math.min(100, Math.ceil(keptJobs / 100));
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
    if (ledger.pipeline.uid() === uid) ledger.pipeline.setUnlisted(from);
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
  const { codesSwept = 0 } = pipeline.row() ?? {};
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
      const page = makers.codes(made, LOOKED_AT);
      named.add(page.codes);
      made = page.next;
      return made !== null;
    });
    await inSlices(() => {
      if (result || made) return false;
      if (codes.removeUnnamed(newest, SLICE)) return true;
      pipeline.setCodesSwept(newest);
      return false;
    });
  } finally {
    codes.endSweep();
  }
}

/** A merge is marked before the branch lets go of its content, so that no commit builds upon one in between. */
async function trimMerges({ ledger, peers }: PipelineContext): Promise<void> {
  const { merges, pipeline } = ledger;
  const oldest = (): number => (pipeline.row()?.committed ?? 0) - MERGES_KEPT;
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
  const { outputDue = 0, releasedTo = 0, freedTo = 0 } = pipeline.row() ?? {};
  if (givenUp.some(1).length > 0 || outputDue > 0) return true;
  // What the output branch keeps no more is known, and not all of it is removed.
  if (releasedTo > 0 && freedTo <= releasedTo) return true;
  return hasUnlisted(ledger, peers) || (ledger.active() !== undefined && merges.retired() !== undefined);
}
