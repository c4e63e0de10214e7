import {
  dueMidnight,
  type LifecycleRule,
  type RuleAction,
  scanTime,
  termOf,
} from "../../core/lifecycle-rules.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Lifecycle } from "../contract/settings.ts";
import type { ApplyingStore } from "../open-commits/applying-store.ts";
import type { OpenCommitStore } from "../open-commits/open-commit-store.ts";
import type { FileStore } from "../tree/file-store.ts";
import type { Head, Live } from "../tree/generation-store.ts";
import type { LifecycleScan, LifecycleScanStore } from "./lifecycle-scan-store.ts";
import type { SettingsStore } from "./settings-store.ts";

const ACTIONS: readonly RuleAction[] = ["expire", "abort"];

export interface PlanStores {
  readonly lifecycleScans: LifecycleScanStore;
  readonly openCommits: OpenCommitStore;
  readonly applying: ApplyingStore;
}

/** What says when rules of the branch have something to do. */
interface DueStores {
  readonly live: Live | null;
  readonly settings: SettingsStore;
  readonly lifecycleScans: LifecycleScanStore;
}

/**
 * Other rules hold. A rule that is as it was goes on where it is; one that is new or another begins at the next midnight,
 * so that who sees a mistake has some time. A scan of a rule that is gone ends here: what it has found stays, unless its
 * rows are being written already, which nothing stops.
 */
export function planScans(
  tx: Tx,
  ledger: PlanStores,
  {
    live: { gen, uid },
    before,
    after,
    now,
  }: { live: Pick<Live, "gen" | "uid">; before: Lifecycle | null; after: Lifecycle | null; now: number },
): void {
  const known = new Map((before?.rules ?? []).map((rule) => [rule.id, JSON.stringify(rule)]));
  const isKept = (rule: LifecycleRule) => known.get(rule.id) === JSON.stringify(rule);
  const wanted = new Map((after?.rules ?? []).map((rule) => [rule.id, rule]));
  for (const scan of ledger.lifecycleScans.all(gen)) {
    const rule = wanted.get(scan.rule);
    if (rule && isKept(rule) && termOf(rule, scan.action)) continue;
    stopScan(tx, ledger, { scan, now });
    ledger.lifecycleScans.remove(scan);
  }
  for (const rule of wanted.values()) {
    if (isKept(rule)) continue;
    for (const action of ACTIONS) {
      const term = termOf(rule, action);
      if (!term) continue;
      const midnight = "date" in term ? term.date : 0;
      ledger.lifecycleScans.plan({ gen, rule: rule.id, action }, scanTime({ midnight, after: now, uid }));
    }
  }
}

/** Gives up what a scan has staged. */
function stopScan(
  _: Tx,
  { openCommits, applying }: PlanStores,
  { scan: { gen, work }, now }: { scan: LifecycleScan; now: number },
): void {
  const openCommit = work?.openCommit ? openCommits.find(work.openCommit, gen) : undefined;
  if (!openCommit) return;
  const applied = applying.get();
  const isApplied = applied?.openCommit === openCommit.number;
  if (isApplied && applied.seq !== null) return;
  if (isApplied) applying.clear();
  openCommits.end(openCommit, now);
}

/**
 * Something was written at a time: rules of this action for which nothing could become due may have something now. Costs no
 * query while there are no rules, or none waits.
 */
export function expectScans(
  _: Tx,
  { live, settings, lifecycleScans }: DueStores,
  { action, writtenAt }: { action: RuleAction; writtenAt: number },
): void {
  const lifecycle = live && settings.of(live.gen).lifecycle;
  if (!live || !lifecycle) return;
  for (const scan of lifecycleScans.waiting(live.gen)) {
    if (scan.action !== action) continue;
    const rule = lifecycle.rules.find(({ id }) => id === scan.rule);
    const term = rule && termOf(rule, action);
    const midnight = term ? dueMidnight(term, writtenAt) : 0;
    lifecycleScans.expect(scan, scanTime({ midnight, after: writtenAt, uid: live.uid }));
  }
}

/** Commits with more births are not looked through: they are taken for such as set tags. */
const MOST_BIRTHS = 10_000;

/**
 * Files may be due whose rows are new and whose bytes are old. Where somebody set tags, rules that go by tags look at the next
 * midnight; where a version was erased and an older one is there again, all do. Costs no query while there are no such rules.
 * `before`: HEAD as it was.
 */
export function hastenScans(
  _: Tx,
  { live, settings, lifecycleScans, files }: DueStores & { readonly files: FileStore },
  { before, now, by }: { before: Pick<Head, "seq" | "births">; now: number; by: "commit" | "erasure" },
): void {
  const rules = (live && settings.of(live.gen).lifecycle?.rules) ?? [];
  const hastened = rules.filter((rule) => (by === "erasure" || rule.tags) && termOf(rule, "expire"));
  if (!live || hastened.length === 0) return;
  const { gen, uid, head } = live;
  const isLarge = head.births - before.births > MOST_BIRTHS;
  if (!isLarge && !files.bearsOlderBytes({ gen, seq: before.seq })) return;
  const due = scanTime({ midnight: 0, after: now, uid });
  lifecycleScans.hasten(gen, { rules: hastened.map(({ id }) => id), due });
}

/** When the branch's rules have something to do next; undefined if nothing can become due. */
export function nextScan({ live, settings, lifecycleScans }: DueStores, now: number): number | undefined {
  if (!live || !settings.of(live.gen).lifecycle) return undefined;
  return lifecycleScans.atWork(live.gen, now) ? now : lifecycleScans.nextDue(live.gen);
}
