import type { Tx } from "../../objects/transaction.ts";
import type { BranchContext } from "../context.ts";
import { forgetNews, hasOldNews } from "../erasures/news.ts";
import { FORK_WATCH_MS, forkAtWork } from "../forks/work.ts";
import { PURGE_WATCH_MS } from "../history/archives/import-store.ts";
import { APPLYING_WATCH_MS } from "../large-commits/applier.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { RELEASED } from "../uploads/upload-store.ts";
import { nextRound } from "./rules/plan.ts";

/** Most of each kind that one slice ends, beside `RELEASED`: what a transaction of some milliseconds takes. */
const UPLOADS = 5;
const LOST_LEASES = 1000;
const COMPLETIONS = 1000;
const OPEN_COMMITS = 50;
const STAGED = 1000;
const UNTAGGED = 1000;
const DEAD_CONTENTS = 100;
/** Slices of those, and of what ended uploads hold, in one alarm. */
const SLICES = 10;

type TidyStores = Pick<
  Ledger,
  | "uploads"
  | "completions"
  | "openCommits"
  | "staged"
  | "contents"
  | "exports"
  | "untagged"
  | "sql"
  | "subscribers"
  | "oweRewrite"
>;

/**
 * One slice of what time brings: ends uploads and open commits that ran out, lets go of commits whose tags went long ago,
 * forgets old completions and news that all have read, removes dead contents.
 */
export function tidy(tx: Tx, ledger: TidyStores, now: number): void {
  const { uploads, completions, contents, exports, untagged } = ledger;
  exports.forgetOld(now);
  untagged.forgetOld(now, UNTAGGED);
  uploads.forgetLost(now, LOST_LEASES);
  let room = RELEASED;
  for (const upload of uploads.expired(now, UPLOADS)) room -= uploads.end(upload, { now, atMost: room });
  uploads.releaseEnded(room);
  completions.forgetOld(now, COMPLETIONS);
  endOpenCommits(tx, ledger, now);
  forgetNews(tx, ledger, now);
  contents.removeDead(now, DEAD_CONTENTS);
}

/** Open commits that ran out end; then what they staged goes, slice by slice, and at last their own rows. */
function endOpenCommits(
  _: Tx,
  { openCommits, staged }: Pick<Ledger, "openCommits" | "staged">,
  now: number,
): void {
  for (let [ends, room] = [0, STAGED]; ends < OPEN_COMMITS && room > 0; ends++) {
    const expired = openCommits.expired(now);
    if (!expired) return;
    if (expired.state === "open") openCommits.end(expired, now);
    const dropped = staged.drop(expired, room);
    if (dropped < room) openCommits.remove(expired.number);
    room -= dropped;
  }
}

/** The rest of what ended uploads hold, and of the dead contents, as far as one alarm should: the next alarm goes on. */
export async function tidyContents({
  ledger,
  now,
  turn,
}: Pick<BranchContext, "ledger" | "now" | "turn">): Promise<void> {
  const { contents, uploads } = ledger;
  for (let slice = 1; slice < SLICES && (uploads.hasEnded || contents.hasDead); slice++) {
    await turn();
    ledger.transaction(() => {
      uploads.releaseEnded(RELEASED);
      contents.removeDead(now(), DEAD_CONTENTS);
    });
  }
}

/**
 * Leaves to the alarm what a call has left dead, and what uploads hold that it has ended, since one call removes no more
 * than a transaction should, what it has condemned, and the look for what its uploads may have left.
 */
export function tidySoon({ ledger, wake, now }: Pick<BranchContext, "ledger" | "wake" | "now">): void {
  const { contents, openCommits, sweeps, uploads } = ledger;
  if (contents.mayHaveDead || uploads.mayHaveEnded || openCommits.takeLeftUploads()) wake(now());
  const due = contents.takeCondemned();
  if (due !== undefined) wake(due);
  const marked = sweeps.takeMarked();
  if (marked !== undefined) wake(marked);
}

/** When there is something to tidy next; undefined if nothing waits. */
export function nextTidy(ledger: Ledger, now: number): number | undefined {
  const { uploads, completions, openCommits, contents, applying, sweeps, exports, imports, untagged } =
    ledger;
  if (contents.hasDead || uploads.hasEnded || hasOldNews(ledger)) return now;
  return earliest(
    uploads.nextDue(),
    completions.nextDue(),
    openCommits.nextDue(),
    contents.nextDue(),
    sweeps.nextDue(),
    exports.nextDue(),
    untagged.nextDue(),
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
