import { median } from "./stats.ts";

/** What design §9 asks for: of a ratio, or of a difference in MiB. */
export type Target = { readonly atLeast: number } | { readonly atMost: number };

/** Ours and what it is held against, measured one right after the other. */
export interface Pair {
  readonly ours: number;
  readonly other: number;
}

/** One line of the report. */
export interface Figure {
  readonly what: string;
  /** What `ours` and `other` of the pairs are in, e.g. `req/s`. */
  readonly unit: string;
  /** What it is held against. */
  readonly against: string;
  readonly pairs: readonly Pair[];
  readonly compare: "ratio" | "difference";
  readonly target: Target;
}

/** The comparison, pair by pair: machine-wide slowness hits both halves of a pair and cancels out. */
export function scores({ pairs, compare }: Pick<Figure, "pairs" | "compare">): number[] {
  return pairs.map(({ ours, other }) => (compare === "ratio" ? ours / other : ours - other));
}

/** The median of the scores. */
export function score(figure: Pick<Figure, "pairs" | "compare">): number {
  return median(scores(figure));
}

export function isMet(figure: Figure): boolean {
  const value = score(figure);
  return "atLeast" in figure.target ? value >= figure.target.atLeast : value <= figure.target.atMost;
}
