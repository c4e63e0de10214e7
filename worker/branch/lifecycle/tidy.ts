import { APPLYING_WATCH_MS } from "../large-commits/applier.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Most of each kind that one slice ends: what a transaction of some milliseconds takes. */
const UPLOADS = 5;
const COMPLETIONS = 1000;
const STAGED = 1000;

/** One slice of what time brings: uploads and open commits that ran out, completions that nobody asks for any more, dead contents. To be called in a transaction. */
export function tidy(ledger: Ledger, now: number): void {
  for (const upload of ledger.uploads.expired(now, UPLOADS)) ledger.uploads.close(upload);
  ledger.completions.forgetOld(now, COMPLETIONS);
  tidyOpenCommit(ledger, now);
  ledger.contents.bury(now);
}

/** An open commit that ran out ends; of one that ended, some more of what it staged goes, and at last it goes itself. */
function tidyOpenCommit(ledger: Ledger, now: number): void {
  const openCommit = ledger.openCommits.expired(now);
  if (!openCommit) return;
  if (openCommit.state === "open") ledger.openCommits.end(openCommit, now);
  if (ledger.staged.drop(openCommit, STAGED) < STAGED) ledger.openCommits.remove(openCommit.number);
}

/** When there is something to tidy next; undefined where nothing waits. */
export function nextTidy(ledger: Ledger, now: number): number | undefined {
  if (ledger.contents.hasDead) return now;
  const watch = ledger.applying.get() ? now + APPLYING_WATCH_MS : undefined;
  return earliest(
    ledger.uploads.nextDue(),
    ledger.completions.nextDue(),
    ledger.openCommits.nextDue(),
    watch,
  );
}

/** The least of those that are there. */
export function earliest(...times: (number | undefined)[]): number | undefined {
  const there = times.filter((time) => time !== undefined);
  return there.length === 0 ? undefined : Math.min(...there);
}
