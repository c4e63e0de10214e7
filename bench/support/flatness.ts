import type { Figure } from "./figure.ts";
import { interleaved } from "./pairs.ts";
import type { Bench } from "./row.ts";
import type { Tree } from "./trees.ts";

const FLAT = 1.5;

export interface Curve {
  readonly what: string;
  readonly unit: string;
  /** Smallest first. */
  readonly trees: readonly Tree[];
  measure(tree: Tree): Promise<number>;
}

/** Each larger tree against the smallest one: flat is within 1.5 times. */
export async function flatness(
  { pairs }: Pick<Bench, "pairs">,
  { what, unit, trees, measure }: Curve,
): Promise<Figure[]> {
  const [smallest, ...larger] = trees;
  if (!smallest) return [];
  const figures: Figure[] = [];
  for (const tree of larger) {
    figures.push({
      what: `${what}, ${shortCount(tree.files)} files`,
      unit,
      against: `${shortCount(smallest.files)} files`,
      pairs: await interleaved(pairs, { ours: () => measure(tree), other: () => measure(smallest) }),
      compare: "ratio",
      target: { atMost: FLAT },
    });
  }
  return figures;
}

function shortCount(count: number): string {
  return count >= 1e6 ? `${count / 1e6}M` : `${count / 1e3}k`;
}
