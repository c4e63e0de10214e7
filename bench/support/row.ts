import type { Figure } from "./figure.ts";
import type { Trees } from "./trees.ts";

/** One measurement, with the target that it is held to. */
export interface Row {
  /** What `--only` takes. */
  readonly name: string;
  readonly title: string;
  /** Takes so long that it is left out of a run that names no rows. */
  readonly onlyWhenNamed?: true;
  run(bench: Bench): Promise<Figure[]>;
}

/** How this run measures, and what its rows share. */
export interface Bench {
  readonly scale: "full" | "quick";
  /** Pairs that count, of each comparison. */
  readonly pairs: number;
  /** One gateway with a branch of each size, filled when first asked for. */
  trees(): Promise<Trees>;
  /** Tells what is going on, for the person at the terminal. */
  say(message: string): void;
}
