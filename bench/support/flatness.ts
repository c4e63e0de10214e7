import type { Figure } from "./figure.ts";
import { interleaved } from "./pairs.ts";
import type { Bench } from "./row.ts";

const FLAT = 1.5;

export interface Curve<T> {
  readonly what: string;
  readonly unit: string;
  /** Smallest first. */
  readonly sizes: readonly T[];
  /** What a size is called, e.g. `100k files`. */
  name(size: T): string;
  measure(size: T): Promise<number>;
}

/** Each larger size against the smallest one: flat is within 1.5 times. */
export async function flatness<T>(
  { pairs }: Pick<Bench, "pairs">,
  { what, unit, sizes, name, measure }: Curve<T>,
): Promise<Figure[]> {
  const [smallest, ...larger] = sizes;
  if (smallest === undefined) return [];
  const figures: Figure[] = [];
  for (const size of larger) {
    figures.push({
      what: `${what}, ${name(size)}`,
      unit,
      against: name(smallest),
      pairs: await interleaved(pairs, { ours: () => measure(size), other: () => measure(smallest) }),
      compare: "ratio",
      target: { atMost: FLAT },
    });
  }
  return figures;
}

/** A tree's size for people. */
export function filesIn({ files }: { readonly files: number }): string {
  return `${shortCount(files)} files`;
}

/** `100k`, `1M`. */
export function shortCount(count: number): string {
  if (count >= 1e6) return `${count / 1e6}M`;
  return count >= 1e3 ? `${count / 1e3}k` : String(count);
}
