import type { LifecycleRule } from "../../core/lifecycle-rules.ts";
import type { Tx } from "../../sqlite/transaction.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { FinalState, PlannedChange } from "./plan.ts";

/** Whether files of a generation go by their age. Costs no query, as settings are in memory. */
export function filesExpire({ settings }: Pick<Ledger, "settings">, gen: number): boolean {
  return settings.of(gen).lifecycle?.rules.some(expires) ?? false;
}

function expires({ enabled, expiration }: LifecycleRule): boolean {
  return enabled && expiration !== undefined;
}

/**
 * Notes what was put again as it is. That is no change and no commit, and yet a file that somebody writes each day must
 * not expire, as it would not on S3. Only while files expire: nobody else asks.
 */
export function renewUnchanged(
  _: Tx,
  ledger: Pick<Ledger, "settings" | "files">,
  {
    gen,
    state,
    changes,
    now,
  }: { gen: number; state: FinalState; changes: readonly PlannedChange[]; now: number },
): void {
  if (!filesExpire(ledger, gen)) return;
  const changed = new Set(changes.map(({ path }) => path));
  for (const [path, put] of state) if (put && !changed.has(path)) ledger.files.renew(path, { gen, now });
}
