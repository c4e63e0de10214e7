import fc from "fast-check";
import type { Tally } from "./tally.ts";

/** How much is tried. */
export interface Form {
  readonly runs: number;
  /** Absent: the one that is kept for the suite, which plays the same each time. */
  readonly seed?: number | undefined;
  /** Hears of each case that breaks the rule, before a smaller one is looked for. */
  readonly onBroken?: (error: unknown) => void;
}

/** A grammar, and the rule that holds for all that it makes. */
export interface Fuzzed {
  readonly name: string;
  /** Throws with the smallest case that breaks the rule, and with the seed and the path that play it again. */
  readonly play: (form: Form, tally: Tally) => Promise<void>;
}

const KEPT_SEED = 27;
/** A case that breaks a rule is made smaller for so long at most, the runs before it included; milliseconds. */
const MOST_MS = 150_000;

/** `kept`: cases that broke the rule once. They come first. */
export function fuzzed<T>(
  name: string,
  {
    grammar,
    kept = [],
    holds,
  }: {
    readonly grammar: fc.Arbitrary<T>;
    readonly kept?: readonly T[];
    readonly holds: (made: T, tally: Tally) => Promise<void> | void;
  },
): Fuzzed {
  return {
    name,
    async play({ runs: numRuns, seed = KEPT_SEED, onBroken }, tally) {
      const property = fc.asyncProperty(grammar, async (made) => {
        try {
          await holds(made, tally);
        } catch (error) {
          onBroken?.(error);
          throw error;
        }
      });
      const examples = kept.map((one): [T] => [one]);
      await fc.assert(property, { numRuns, seed, examples, interruptAfterTimeLimit: MOST_MS });
    },
  };
}
