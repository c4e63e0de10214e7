import { JOB_FAULTS, JOB_GROUP_OF, JOB_GROUP_PAIRS, JOB_KINDS } from "./jobs/plan.ts";
import { ARCHIVE_DAMAGES, RARE_DAMAGE } from "./kinds/damage.ts";
import { FAULTS } from "./mishaps.ts";

/** How often each thing occurs at least in so many histories; in fewer of them, in proportion. */
const OFTEN = { times: 100, histories: 10_000 };

/** What a run of histories has to have had, for what it found to say anything. */
export interface Table {
  readonly lines: readonly string[];
  /** What occurred less often than `least` times. */
  readonly tooRare: readonly string[];
  readonly least: number;
}

/**
 * How often each kind of step, each fault, each damage of an archive and each pair of kinds at the same time occurred. `kinds`: those of histories of branches.
 * Histories of pipelines are fewer: of those, pairs of groups of kinds are wanted, and pairs of kinds are told.
 */
export function tableOf(
  counted: ReadonlyMap<string, number>,
  { histories, kinds }: { readonly histories: number; readonly kinds: readonly string[] },
): Table {
  const counts = withGroups(counted);
  const sorted = kinds.toSorted();
  const wanted = [
    ...sorted.map((kind) => `step ${kind}`),
    ...JOB_KINDS.map((kind) => `step jobs: ${kind}`),
    ...[...FAULTS, ...JOB_FAULTS].map((fault) => `fault ${fault}`),
    ...ARCHIVE_DAMAGES.filter((damage) => damage !== RARE_DAMAGE).map((damage) => `archive ${damage}`),
    ...sorted.flatMap((one, at) => sorted.slice(at).map((other) => `pair ${one} + ${other}`)),
    ...JOB_GROUP_PAIRS.map(groupPair),
  ];
  const least = Math.min(OFTEN.times, Math.floor((OFTEN.times * histories) / OFTEN.histories));
  const timesOf = (what: string) => counts.get(what) ?? 0;
  const tooRare = wanted.filter((what) => timesOf(what) < least);
  const marked = new Set(tooRare);
  const all = new Set([...[...counts.keys()].sort(), ...wanted]);
  const lineOf = (what: string) =>
    `${String(timesOf(what)).padStart(8)}  ${what}${marked.has(what) ? `  (less than ${least})` : ""}`;
  return { lines: [...all].map(lineOf), tooRare, least };
}

function groupPair(pair: readonly [string, string]): string {
  return `pair jobs: all ${pair.toSorted().join(" + all ")}`;
}

/** With how often two kinds of two groups ran at the same time. */
function withGroups(counted: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  const counts = new Map(counted);
  for (const [what, times] of counted) {
    const [, one = "", other = ""] = /^pair jobs: (.+) \+ jobs: (.+)$/.exec(what) ?? [];
    const [oneGroup, otherGroup] = [JOB_GROUP_OF.get(one), JOB_GROUP_OF.get(other)];
    if (oneGroup === undefined || otherGroup === undefined) continue;
    const pair = groupPair([oneGroup, otherGroup]);
    counts.set(pair, (counts.get(pair) ?? 0) + times);
  }
  return counts;
}
