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

/** How often each kind of step, each fault and each pair of kinds at the same time occurred. */
export function tableOf(
  counts: ReadonlyMap<string, number>,
  { histories, kinds }: { readonly histories: number; readonly kinds: readonly string[] },
): Table {
  const sorted = kinds.toSorted();
  const wanted = [
    ...sorted.map((kind) => `step ${kind}`),
    ...FAULTS.map((fault) => `fault ${fault}`),
    ...sorted.flatMap((one, at) => sorted.slice(at).map((other) => `pair ${one} + ${other}`)),
  ];
  const least = Math.min(OFTEN.times, Math.floor((OFTEN.times * histories) / OFTEN.histories));
  const all = new Set([...[...counts.keys()].sort(), ...wanted]);
  const timesOf = (what: string) => counts.get(what) ?? 0;
  return {
    lines: [...all].map((what) => `${String(timesOf(what)).padStart(8)}  ${what}`),
    tooRare: wanted.filter((what) => timesOf(what) < least),
    least,
  };
}
