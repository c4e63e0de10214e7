import type { Pair } from "./figure.ts";

export interface Sides {
  readonly ours: () => Promise<number>;
  readonly other: () => Promise<number>;
}

/**
 * Measures both sides `count` times in turns, after one turn that does not count. Who goes first alternates, so that
 * neither always finds the machine as the other left it.
 */
export async function interleaved(count: number, { ours, other }: Sides): Promise<Pair[]> {
  const pairs: Pair[] = [];
  for (let turn = 0; turn <= count; turn++) {
    let pair: Pair;
    if (turn % 2 === 0) {
      const first = await ours();
      pair = { ours: first, other: await other() };
    } else {
      const first = await other();
      pair = { ours: await ours(), other: first };
    }
    if (turn > 0) pairs.push(pair);
  }
  return pairs;
}
