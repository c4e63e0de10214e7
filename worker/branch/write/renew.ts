import type { Tx } from "../../objects/transaction.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { FinalState, PlannedChange } from "../staging/plan.ts";
import type { Live } from "../tree/generation-store.ts";

/*
 * What is put again as it is. That is no change and no commit, and yet somebody wrote it: a file that is written each day must
 * not expire, and where objects have times of their own, a client that compares times would send it again for ever. S3 knows
 * no difference between this and any other PUT. So the row of the file at HEAD says when it was last written again. It goes
 * with the row: what replaces it has the time of its commit.
 */

/** Whether anybody asks when files of a generation were written again. Costs no query, as settings are in memory. */
export function tellsRenewals({ settings }: Ledger, gen: number): boolean {
  const rules = settings.of(gen).lifecycle?.rules ?? [];
  const filesExpire = rules.some(({ enabled, expiration }) => enabled && expiration !== undefined);
  return filesExpire || settings.modifiedOf(gen) === "file";
}

/** Records what was put again as it is, as long as somebody asks for that. */
export function renewUnchanged(
  _: Tx,
  ledger: Ledger,
  {
    gen,
    state,
    changes,
    now,
  }: { gen: number; state: FinalState; changes: readonly PlannedChange[]; now: number },
): void {
  if (!tellsRenewals(ledger, gen)) return;
  const changed = new Set(changes.map(({ path }) => path));
  for (const [path, put] of state) {
    // Whoever sets tags writes no bytes.
    const isWritten = put !== null && (put.bytesAt ?? null) === null;
    if (isWritten && !changed.has(path)) ledger.files.renew(path, { gen, now });
  }
}

/** The time that a write is answered with that changed nothing. */
export function unchangedAt(
  { settings }: Ledger,
  { live: { gen, head }, now }: { live: Live; now: number },
): number {
  return settings.modifiedOf(gen) === "file" ? Math.max(now, head.modifiedAt) : head.modifiedAt;
}
