/** An operation of the soak, and how often it comes beside the others. */
export interface Operation {
  readonly name: string;
  readonly weight: number;
  /** Does it, and throws a Surprise if its outcome is not the model's. */
  act(): Promise<void>;
}

/** What happened is not what the model says. */
export class Surprise extends Error {
  override readonly name = "Surprise";
}

/** Throws a Surprise that tells both, unless they are the same text. */
export function same(what: string, { found, expected }: { found: unknown; expected: unknown }): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Surprise(`${what}: found ${one}, the model says ${other}`);
}

/** One of them, each as often as its weight says. */
export function choose(operations: readonly Operation[], random: () => number): Operation {
  let left = random() * operations.reduce((sum, { weight }) => sum + weight, 0);
  for (const operation of operations) {
    left -= operation.weight;
    if (left < 0) return operation;
  }
  throw new Error("there is no operation");
}

export function oneOf<T>(items: readonly T[], random: () => number): T {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error("there is nothing to choose from");
  return item;
}
