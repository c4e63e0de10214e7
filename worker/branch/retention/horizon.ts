import type { LowWaterMark, SubscriberStore } from "../outbox/outbox-store.ts";
import type { SettingsStore } from "../settings/settings-store.ts";
import type { CommitStore } from "../tree/commit-store.ts";
import type { GenerationRow, GenerationStore, Live } from "../tree/generation-store.ts";
import type { HorizonStore } from "./horizon-store.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

interface HorizonRuleStores {
  readonly generations: GenerationStore;
  readonly commits: CommitStore;
  readonly settings: SettingsStore;
  readonly subscribers: SubscriberStore;
  readonly horizons: HorizonStore;
}

/** Everything may go, as far as somebody is concerned. */
const ALL = Number.POSITIVE_INFINITY;

/** Where the horizon of a generation may be, and when it may be higher without a new commit; null: only with one. */
export interface HorizonNow {
  readonly horizon: number;
  readonly risesAt: number | null;
}

/**
 * The horizon that a generation may have now: what `keep` says of one that lives, or the end of one that was deleted, but no
 * more than every subscriber lets go. It never falls: what was given back can't be had again.
 */
export function horizonNow(
  ledger: HorizonRuleStores,
  { generation, now }: { generation: GenerationRow; now: number },
): HorizonNow {
  const { gen } = generation;
  const present = ledger.horizons.horizonOf(gen);
  const asked = askedHorizon(ledger, { generation, now });
  const needed = lowestMark(ledger.subscribers.marks(), gen);
  const horizon = Math.max(present, Math.min(asked.horizon, needed));
  return { horizon, risesAt: asked.horizon < needed ? asked.risesAt : null };
}

/** The horizon that is asked for, whatever subscribers need: by `keep`, or by the deletion of the branch. */
export function askedHorizon(
  ledger: Omit<HorizonRuleStores, "subscribers">,
  { generation: { gen }, now }: { generation: GenerationRow; now: number },
): HorizonNow {
  const live = ledger.generations.live();
  return live?.gen === gen ? keptFrom(ledger, { live, now }) : endOf(ledger, gen);
}

/** A fork whose rows are still being copied looks deleted, and has no deletion: nothing of it goes. */
function endOf({ commits }: Pick<HorizonRuleStores, "commits">, gen: number): HorizonNow {
  const last = commits.newest(gen);
  return { horizon: last?.kind === "deletion" ? last.seq : 0, risesAt: null };
}

/** The horizon that `keep` asks for, whatever subscribers need. */
function keptFrom(
  { settings, commits, horizons }: Pick<HorizonRuleStores, "settings" | "commits" | "horizons">,
  { live: { gen, head }, now }: { live: Live; now: number },
): HorizonNow {
  const { keep } = settings.of(gen);
  if (!keep || head.seq === 0) return { horizon: 0, risesAt: null };
  // HEAD stays, and so does everything if nothing is said, whatever else is written there.
  const byCount = keep.commits === undefined ? ALL : head.seq + 1 - Math.max(keep.commits, 1);
  if (keep.days === undefined) return { horizon: byCount === ALL ? 0 : Math.max(byCount, 0), risesAt: null };
  const ageMs = keep.days * DAY_MS;
  const createdAt = (seq: number): number => commits.at({ gen, seq })?.createdAt ?? 0;
  const byAge = newestUpTo(now - ageMs, { first: horizons.horizonOf(gen), last: head.seq, createdAt });
  const risesAt = byAge < byCount && byAge < head.seq ? createdAt(byAge + 1) + ageMs : null;
  return { horizon: Math.max(Math.min(byCount, byAge), 0), risesAt };
}

/**
 * The newest commit that was made by a time: what was before it was replaced by then, and it itself was not. Commits follow
 * each other without a gap from `first` on, and their times never go back.
 */
function newestUpTo(
  time: number,
  { first, last, createdAt }: { first: number; last: number; createdAt: (seq: number) => number },
): number {
  let [low, high] = [first, last];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (createdAt(middle) <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The first commit of a generation whose tree a subscriber may still ask for. */
export function lowestMark(marks: readonly LowWaterMark[], gen: number): number {
  let least = ALL;
  for (const mark of marks) {
    if (mark.gen === null || mark.seq === null || mark.gen < gen) return 0;
    if (mark.gen === gen) least = Math.min(least, mark.seq);
  }
  return least;
}
