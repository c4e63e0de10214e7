import { yieldToOthers } from "../../sqlite/turns.ts";
import type { Uses } from "../context.ts";
import type { ResultKey } from "../work/result-store.ts";

/** Rows removed in one transaction. */
const SLICE = 500;

/** So many of the newest jobs keep what they ran, datum by datum; older ones keep only the counts. */
export const KEPT_JOBS = 1000;

/** What was merged is kept until so many jobs have been committed without it. */
const MERGES_KEPT = 100;

/**
 * Removes rows that nobody will read again, so that a job costs the same after many others: elements that no
 * unfinished job has, datums that died before the last output commit, attempts and logs of jobs long past, results of
 * another salt once no output is made of them, and what was merged long ago. In slices; what a crash leaves goes after
 * the next job's end.
 */
export async function trim(
  uses: TrimsMerges & Uses<"elements" | "datums" | "attempts" | "logs" | "results" | "jobs">,
): Promise<void> {
  const { ledger } = uses;
  await inSlices(() => ledger.elements.trim(oldestRead(), SLICE));
  await inSlices(() => ledger.datums.trim(ledger.pipeline.row()?.committed ?? 0, SLICE));
  await inSlices(() => ledger.attempts.trim(oldestShown(ledger.jobs), SLICE));
  await inSlices(() => ledger.logs.trim(oldestShown(ledger.jobs), SLICE));
  let after: ResultKey | null = { id: "", salt: "" };
  await inSlices(() => {
    const { staleUntil = null, committed = 0 } = ledger.pipeline.row() ?? {};
    if (staleUntil === null || committed < staleUntil || after === null) return false;
    after = ledger.results.trim(after, SLICE);
    if (after === null) ledger.pipeline.setStaleUntil(null);
    return after !== null;
  });
  await trimMerges(uses);

  /** A job reads elements that were alive at it. */
  function oldestRead(): number {
    return ledger.jobs.oldest()?.n ?? ledger.jobs.newest()?.n ?? 0;
  }

  async function inSlices(slice: () => boolean): Promise<void> {
    while (ledger.active() && ledger.transaction(slice)) await yieldToOthers();
  }
}

/** The oldest job that keeps what it ran. What a job left undone is wanted until a later one has taken it over. */
export function oldestShown(jobs: Uses<"jobs">["ledger"]["jobs"]): number {
  const newest = jobs.newest()?.n ?? 0;
  return newest <= KEPT_JOBS ? 0 : Math.min(newest - KEPT_JOBS, jobs.newestWithTurn());
}

/** What trimming merges touches. */
type TrimsMerges = Uses<"active" | "transaction" | "step" | "pipeline" | "merges", "branch">;

/** A merge is marked before the branch lets go of its content, so that no commit builds upon one in between. */
async function trimMerges({ ledger, peers }: TrimsMerges): Promise<void> {
  const { merges, pipeline } = ledger;
  const oldest = (): number => (pipeline.row()?.committed ?? 0) - MERGES_KEPT;
  while (ledger.active() && ledger.transaction(() => merges.retire(oldest(), SLICE))) await yieldToOthers();
  for (;;) {
    const definition = ledger.active();
    const merge = definition && merges.retired();
    if (!merge) return;
    if (merge.upload !== null) await peers.branch(definition.output).abortUpload({ upload: merge.upload });
    ledger.step(definition, () => merges.forget(merge.id));
  }
}
