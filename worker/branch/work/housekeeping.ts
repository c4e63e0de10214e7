import { earliest } from "../../objects/engine.ts";
import type { NamedLoop } from "../../objects/loop.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { BranchContext } from "../context.ts";
import { forgetNews, hasOldNews } from "../erasures/news.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { BranchLoop } from "../store.ts";
import { RELEASED } from "../uploads/upload-store.ts";

/** Most of each kind that one slice ends, beside `RELEASED`: what a transaction of some milliseconds takes. */
const UPLOADS = 5;
const LOST_LEASES = 1000;
const COMPLETIONS = 1000;
const OPEN_COMMITS = 50;
const STAGED = 1000;
const UNTAGGED = 1000;
const DEAD_CONTENTS = 100;

/**
 * One slice of what time brings: ends uploads and open commits that ran out, lets go of commits whose tags went long ago,
 * forgets old completions and news that all have read, removes dead contents.
 */
function endExpired(tx: Tx, ledger: Ledger, now: number): void {
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
function endOpenCommits(_: Tx, { openCommits, staged }: Ledger, now: number): void {
  for (let [ends, room] = [0, STAGED]; ends < OPEN_COMMITS && room > 0; ends++) {
    const expired = openCommits.expired(now);
    if (!expired) return;
    if (expired.state === "open") openCommits.end(expired, now);
    const dropped = staged.drop(expired, room);
    if (dropped < room) openCommits.remove(expired.number);
    room -= dropped;
  }
}

/** When time brings something next; undefined if nothing waits. */
function nextDue(ledger: Ledger): number | undefined {
  const { uploads, completions, openCommits, contents, exports, untagged } = ledger;
  if (contents.hasDead || uploads.hasEnded || hasOldNews(ledger)) return 0;
  return earliest(
    uploads.nextDue(),
    completions.nextDue(),
    openCommits.nextDue(),
    exports.nextDue(),
    untagged.nextDue(),
  );
}

/** Does what time brings, slice by slice. */
export function housekeeping({ ledger, now }: Pick<BranchContext, "ledger" | "now">): NamedLoop {
  const due = () => nextDue(ledger);
  return {
    name: "housekeeping" satisfies BranchLoop,
    due,
    step: () => {
      ledger.transaction((tx) => endExpired(tx, ledger, now()));
      return (due() ?? Number.POSITIVE_INFINITY) <= now();
    },
  };
}
