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
 * hold beside that is let go of with them (work/trim/given-up.ts).
 */

import { yieldToOthers } from "../../../objects/turns.ts";
import type { EndedPlace } from "../../attempts/result-store.ts";
import type { PipelineContext } from "../../context.ts";
import type { DeadPlace } from "../../output/published-store.ts";

/** Commits asked for in the first call, and most in a later one. */
const FIRST_PAGE = 20;
const LAST_PAGE = 500;
/** Rows looked at in one transaction. */
const SLICE = 500;

/** Step 2. Throws if the branch can't be reached: asked again later. */
export async function lookAtOutput({ ledger, peers }: PipelineContext): Promise<void> {
  for (;;) {
    const definition = ledger.pipeline.definition();
    const news = ledger.pipeline.row()?.outputDue ?? 0;
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
      if (gone.length === 0 && after > (ledger.pipeline.row()?.releasedTo ?? 0)) break;
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
  const { releasedTo = 0, freedTo = 0 } = pipeline.row() ?? {};
  // What ended with the first commit that is kept without a gap, or before, may be of none that is.
  const until = releasedTo === 0 ? 0 : (jobs.keptAfter(releasedTo, 1)[0]?.n ?? releasedTo + 1);
  if (until <= freedTo) return;
  let result: EndedPlace | null = { died: freedTo + 1, id: "", salt: "" };
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
    if (result === null && made === null && pipeline.row()?.freedTo === freedTo) pipeline.setFreedTo(until);
    return false;
  });
}
