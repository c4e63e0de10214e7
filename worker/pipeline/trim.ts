import { type Parts, yieldToOthers } from "./parts.ts";
import type { ResultKey } from "./results.ts";

/** Rows removed in one transaction. */
const SLICE = 500;

/** So many of the newest jobs keep what they ran, datum by datum; of older ones only the counts remain. */
export const KEPT_JOBS = 1000;

/**
 * Removes rows that nobody will read again, so that a job costs the same after many others: elements that no
 * unfinished job has, datums that died before the last output commit, attempts of jobs long past, and results of
 * another salt once no output is made of them. In slices; a crash leaves the rest to the next job's end.
 */
export async function trim({ ledger }: Parts): Promise<void> {
  await inSlices(() => ledger.elements.trim(oldestRead(), SLICE));
  await inSlices(() => ledger.datums.trim(ledger.pipeline.row()?.committed ?? 0, SLICE));
  await inSlices(() => ledger.attempts.trim(oldestShown(), SLICE));
  let after: ResultKey | null = { id: "", salt: "" };
  await inSlices(() => {
    const { staleBefore = null, committed = 0 } = ledger.pipeline.row() ?? {};
    if (staleBefore === null || committed < staleBefore || after === null) return false;
    after = ledger.results.trim(after, SLICE);
    if (after === null) ledger.pipeline.setStaleBefore(null);
    return after !== null;
  });

  /** A job reads elements that were alive at it. */
  function oldestRead(): number {
    return ledger.jobs.front()?.n ?? ledger.jobs.newest()?.n ?? 0;
  }

  /** What a job left undone is wanted until a later one has taken it over. */
  function oldestShown(): number {
    const newest = ledger.jobs.newest()?.n ?? 0;
    return newest <= KEPT_JOBS ? 0 : Math.min(newest - KEPT_JOBS, ledger.jobs.lastCarried());
  }

  async function inSlices(slice: () => boolean): Promise<void> {
    while (ledger.active() && ledger.transaction(slice)) await yieldToOthers();
  }
}
