import type { Pair } from "./figure.ts";

export interface Sides {
  readonly ours: () => Promise<number>;
  readonly other: () => Promise<number>;
  /** Turns that do not count; absent: 1. */
  readonly warmUps?: number;
}

/**
 * Measures both sides `count` times in turns, after the warm-ups. Which side goes first alternates, so that
 * neither always finds the machine as the other left it.
 */
export async function interleaved(count: number, { ours, other, warmUps = 1 }: Sides): Promise<Pair[]> {
  const pairs: Pair[] = [];
  for (let turn = 0; turn < warmUps + count; turn++) {
    let pair: Pair;
    if (turn % 2 === 0) {
      const first = await ours();
      pair = { ours: first, other: await other() };
    } else {
      const first = await other();
      pair = { ours: await ours(), other: first };
    }
    if (turn >= warmUps) pairs.push(pair);
  }
  return pairs;
}
