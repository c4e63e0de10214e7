import type { Tx } from "../../sqlite/transaction.ts";
import type { SettingsChange } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";

/** Sets what is asked of the live generation. If that changes anything, the catalogue is to be told. */
export function changeSettings(
  _: Tx,
  { settings, outbox }: Pick<Ledger, "settings" | "outbox">,
  {
    live: { gen, uid },
    change,
    now,
  }: { live: Pick<Live, "gen" | "uid">; change: SettingsChange; now: number },
): void {
  const before = settings.of(gen);
  const { public: isPublic = before.isPublic, cors = before.cors } = change;
  if (isPublic === before.isPublic && JSON.stringify(cors) === JSON.stringify(before.cors)) return;
  const revision = before.revision + 1;
  settings.save(gen, { revision, isPublic, cors });
  outbox.tellSettings({ event: `${uid}.${revision}`, now });
}

/** Whether a change may give somebody an answer who got none before. */
export function letsIn({ public: isPublic = false, cors = null }: SettingsChange): boolean {
  return isPublic || cors !== null;
}

/** Whether the branch is there and answers reads without a signature. */
export function isPublic({ live, settings }: Pick<Ledger, "live" | "settings">): boolean {
  return live !== null && settings.of(live.gen).isPublic;
}
