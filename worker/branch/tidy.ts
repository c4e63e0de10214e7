import type { Ledger } from "./ledger.ts";

/** Most of each kind that one slice ends: what a transaction of some milliseconds takes. */
const UPLOADS = 5;
const COMPLETIONS = 1000;

/** One slice of what time brings: uploads that ran out, completions that nobody asks for any more, dead contents. To be called in a transaction. */
export function tidy(ledger: Ledger, now: number): void {
  for (const upload of ledger.uploads.expired(now, UPLOADS)) ledger.uploads.close(upload);
  ledger.completions.forgetOld(now, COMPLETIONS);
  ledger.contents.bury(now);
}

/** When there is something to tidy next; undefined where nothing waits. */
export function nextTidy(ledger: Ledger, now: number): number | undefined {
  if (ledger.contents.hasDead) return now;
  return earliest(ledger.uploads.nextDue(), ledger.completions.nextDue());
}

/** The least of those that are there. */
export function earliest(...times: (number | undefined)[]): number | undefined {
  const there = times.filter((time) => time !== undefined);
  return there.length === 0 ? undefined : Math.min(...there);
}
