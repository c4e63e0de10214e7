import { median } from "./stats.ts";

/** What is asked for: of a ratio, or of a difference or the value itself in its unit. */
export type Target = { readonly atLeast: number } | { readonly atMost: number };

/** Ours and what it is held against, measured one right after the other. */
export interface Pair {
  readonly ours: number;
  readonly other: number;
}

/** One line of the report. */
export type Figure = Comparison | Measurement;

/** Ours against something else. */
interface Comparison {
  readonly what: string;
  /** What `ours` and `other` of the pairs are in, e.g. `req/s`. */
  readonly unit: string;
  /** What it is held against. */
  readonly against: string;
  readonly pairs: readonly Pair[];
  readonly compare: "ratio" | "difference";
  /** Null: nothing is asked for. */
  readonly target: Target | null;
}

/** Ours alone: for what must keep within a bound on any machine, or what is only told. */
interface Measurement {
  readonly what: string;
  readonly unit: string;
  readonly values: readonly number[];
  readonly compare: "nothing";
  /** Null: nothing is asked for. */
  readonly target: Target | null;
}

/** The comparison, pair by pair: machine-wide slowness hits both halves of a pair and cancels out. */
export function scores(figure: Figure): readonly number[] {
  if (figure.compare === "nothing") return figure.values;
  const { pairs, compare } = figure;
  return pairs.map(({ ours, other }) => (compare === "ratio" ? ours / other : ours - other));
}

/** The median of the scores. */
export function score(figure: Figure): number {
  return median(scores(figure));
}

/** Undefined if nothing is asked for. */
export function isMet(figure: Figure): boolean | undefined {
  const { target } = figure;
  if (target === null) return undefined;
  const value = score(figure);
  return "atLeast" in target ? value >= target.atLeast : value <= target.atMost;
}
