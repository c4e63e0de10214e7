import type { Tx } from "../../sqlite/transaction.ts";
import type { BranchContext } from "../context.ts";
import { forgetNews, hasOldNews } from "../erasures/news.ts";
import { FORK_WATCH_MS, forkAtWork } from "../forks/work.ts";
import { PURGE_WATCH_MS } from "../history/archives/import-store.ts";
import { APPLYING_WATCH_MS } from "../large-commits/applier.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { nextRound } from "./rules/plan.ts";

/** Most of each kind that one slice ends: what a transaction of some milliseconds takes. */
const UPLOADS = 5;
const LOST_LEASES = 1000;
const COMPLETIONS = 1000;
const STAGED = 1000;

type TidyStores = Pick<
  Ledger,
  "uploads" | "completions" | "openCommits" | "staged" | "contents" | "exports" | "sql" | "subscribers"
>;

/**
 * One slice of what time brings: ends uploads and open commits that ran out, forgets old completions and news that
 * all have read, removes dead contents.
 */
export function tidy(tx: Tx, ledger: TidyStores, now: number): void {
  const { uploads, completions, openCommits, staged, contents, exports } = ledger;
  exports.forgetOld(now);
  uploads.forgetLost(now, LOST_LEASES);
  for (const upload of uploads.expired(now, UPLOADS)) uploads.end(upload, now);
  completions.forgetOld(now, COMPLETIONS);
  // An open commit that ran out ends; then what it staged goes, slice by slice, and at last its own row.
  const expired = openCommits.expired(now);
  if (expired?.state === "open") openCommits.end(expired, now);
  if (expired && staged.drop(expired, STAGED) < STAGED) openCommits.remove(expired.number);
  forgetNews(tx, ledger);
  contents.removeDead(now);
}

/**
 * Leaves to the alarm what a call has left dead, since one call removes no more than a transaction should, what it has
 * condemned, and the look for what its uploads may have left.
 */
export function tidySoon({ ledger, wake, now }: Pick<BranchContext, "ledger" | "wake" | "now">): void {
  const { contents, sweeps } = ledger;
  if (contents.mayHaveDead) wake(now());
  const due = contents.takeCondemned();
  if (due !== undefined) wake(due);
  const marked = sweeps.takeMarked();
  if (marked !== undefined) wake(marked);
}

/** When there is something to tidy next; undefined if nothing waits. */
export function nextTidy(ledger: Ledger, now: number): number | undefined {
  const { uploads, completions, openCommits, contents, applying, sweeps, exports, imports } = ledger;
  if (contents.hasDead || hasOldNews(ledger)) return now;
  return earliest(
    uploads.nextDue(),
    completions.nextDue(),
    openCommits.nextDue(),
    contents.nextDue(),
    sweeps.nextDue(),
    exports.nextDue(),
    imports.nextDue(),
    imports.purging() ? now + PURGE_WATCH_MS : undefined,
    applying.get() ? now + APPLYING_WATCH_MS : undefined,
    forkAtWork(ledger) ? now + FORK_WATCH_MS : undefined,
    nextRound(ledger, now),
  );
}

/** The least of the times that are there. */
export function earliest(...times: (number | undefined)[]): number | undefined {
  const there = times.filter((time) => time !== undefined);
  return there.length === 0 ? undefined : Math.min(...there);
}
