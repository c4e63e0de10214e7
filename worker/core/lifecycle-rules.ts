import type { ObjectTag } from "../../protocol/object-tags.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** Nothing is planned further ahead: a rule may name more days than a clock has. */
const FURTHEST_MS = 3650 * DAY_MS;
/** A hundred years. */
const MOST_DAYS_KEPT = 36_500;

/** When what a rule is about is due: so many days after it was written, or, once a date is there, on the next day. */
export type Term = { readonly days: number } | { readonly date: number };

/** One rule of S3's lifecycle configuration of a bucket. */
export interface LifecycleRule {
  readonly id: string;
  readonly enabled: boolean;
  /** It is about keys that begin with this; "": about all. */
  readonly prefix: string;
  /** How that was written: as a filter of a prefix, of a tag, of several of these or of nothing; or as S3 wrote it before filters. */
  readonly filter: "prefix" | "tag" | "and" | "empty" | "none";
  /** It is about files that have all of these tags; absent: about all of the prefix. In order of their keys. */
  readonly tags?: readonly ObjectTag[];
  /** Files that it is about go. */
  readonly expiration?: Term;
  /** Multipart uploads of the prefix go so many days after they began. */
  readonly abortDays?: number;
  /** Commits are kept for so many days; of all files alone. */
  readonly noncurrentDays?: number;
}

/** What a rule does again and again: one walk over what it is about is a scan. */
export type RuleAction = "expire" | "abort";

/** The term of a rule's action; undefined if it does nothing of the kind. */
export function termOf({ enabled, ...rule }: LifecycleRule, action: RuleAction): Term | undefined {
  if (!enabled) return undefined;
  if (action === "expire") return rule.expiration;
  return rule.abortDays === undefined ? undefined : { days: rule.abortDays };
}

/** What `sluice branch keep` says, or rules do. */
interface Kept {
  readonly commits?: number;
  readonly days?: number;
}

/** For how many days rules want commits kept: the least that one says; undefined if none says anything. */
export function daysKept(rules: readonly LifecycleRule[]): number | undefined {
  const days = rules.flatMap((rule) => (rule.enabled && rule.noncurrentDays) || []);
  return days.length === 0 ? undefined : Math.min(...days, MOST_DAYS_KEPT);
}

/** Whether it is by these rules that so much is kept, and nobody has said something else since. */
export function isKeptBy(rules: readonly LifecycleRule[], keep: Kept | null): boolean {
  const days = daysKept(rules);
  return days !== undefined && keep?.days === days && keep.commits === undefined;
}

/** The rules that hold: without what they say of commits, once somebody has said something else. */
export function holdingRules(rules: readonly LifecycleRule[], keep: Kept | null): LifecycleRule[] {
  if (isKeptBy(rules, keep)) return [...rules];
  return rules.flatMap((rule): LifecycleRule[] => {
    if (!rule.enabled || rule.noncurrentDays === undefined) return [rule];
    const { noncurrentDays: _, ...others } = rule;
    return others.expiration || others.abortDays !== undefined ? [others] : [];
  });
}

/** The midnight (UTC) that the day of a time began with. */
export function midnightOf(time: number): number {
  return Math.floor(time / DAY_MS) * DAY_MS;
}

/** The next midnight after a time. */
export function midnightAfter(time: number): number {
  return midnightOf(time) + DAY_MS;
}

/**
 * What was written before this is due at a midnight; undefined if nothing is. As on S3, the days are full ones, and the
 * end of the last is rounded up to the next midnight (S3 User Guide, "Setting lifecycle configuration on a bucket").
 */
export function cutoffOf(term: Term, midnight: number): number | undefined {
  if ("days" in term) return midnight - term.days * DAY_MS;
  return term.date <= midnight ? midnight : undefined;
}

/** The midnight at which something is due that was written at a time. */
export function dueMidnight(term: Term, writtenAt: number): number {
  if ("date" in term) return Math.max(term.date, midnightAfter(writtenAt));
  return midnightAfter(writtenAt + term.days * DAY_MS);
}

/**
 * When a scan for a midnight begins: within the hour after it, at a minute of the branch's own, so that branches of one
 * host do not all begin at once. `after`: it is at the next midnight after this time at the earliest.
 */
export function scanTime({
  midnight,
  after,
  uid,
}: {
  readonly midnight: number;
  readonly after: number;
  /** Of the generation. */
  readonly uid: string;
}): number {
  const earliest = midnightAfter(after);
  return Math.min(Math.max(midnight, earliest), earliest + FURTHEST_MS) + minuteOf(uid) * 60_000;
}

function minuteOf(uid: string): number {
  let sum = 0;
  for (const character of uid) sum = (sum * 31 + character.charCodeAt(0)) % 60;
  return sum;
}
