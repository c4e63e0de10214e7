import { JOB_FAULTS, JOB_KINDS } from "./jobs/plan.ts";
import { ARCHIVE_DAMAGES } from "./kinds/damage.ts";
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
 * How often each kind of step, each fault, each damage of an archive and each pair of kinds at the same time occurred. `kinds`: those of histories of branches;
 * of histories of pipelines, which are fewer, pairs are told and none is wanted.
 */
export function tableOf(
  counts: ReadonlyMap<string, number>,
  { histories, kinds }: { readonly histories: number; readonly kinds: readonly string[] },
): Table {
  const sorted = kinds.toSorted();
  const wanted = [
    ...sorted.map((kind) => `step ${kind}`),
    ...JOB_KINDS.map((kind) => `step jobs: ${kind}`),
    ...[...FAULTS, ...JOB_FAULTS].map((fault) => `fault ${fault}`),
    ...ARCHIVE_DAMAGES.map((damage) => `archive ${damage}`),
    ...sorted.flatMap((one, at) => sorted.slice(at).map((other) => `pair ${one} + ${other}`)),
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
