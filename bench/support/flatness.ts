import type { Figure } from "./figure.ts";
import { interleaved } from "./pairs.ts";
import type { Bench } from "./row.ts";

const FLAT = 1.5;

/** A branch of some size. */
interface Sized {
  readonly files: number;
}

export interface Curve<Tree extends Sized> {
  readonly what: string;
  readonly unit: string;
  /** Smallest first. */
  readonly trees: readonly Tree[];
  measure(tree: Tree): Promise<number>;
}

/** Each larger tree against the smallest one: flat is within 1.5 times. */
export async function flatness<Tree extends Sized>(
  { pairs }: Pick<Bench, "pairs">,
  { what, unit, trees, measure }: Curve<Tree>,
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
