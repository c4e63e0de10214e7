import type { Invariant, Mutant, TestRun } from "./mutant.ts";
import type { Outcome } from "./run-tests.ts";
import { SpareTree } from "./spare-tree.ts";

/** Longest that the tests of one mutant may take; milliseconds. */
const TEST_MS = 60_000;

export interface Trial {
  readonly root: string;
  readonly invariants: readonly Invariant[];
  /** In so many trees side by side. */
  readonly trees: number;
  /** How long all of it may take; milliseconds. What does not fit is left out. */
  readonly withinMs: number;
  readonly say: (line: string) => void;
}

interface Planned {
  readonly id: string;
  readonly mutant: Mutant;
}

/**
 * `caught`: a test fails, which passes without the mutant. `survived`: all tests pass. `proves nothing`: they could not be
 * run to their end, or fail without it as well.
 */
type Verdict = "caught" | "equivalent" | "survived" | "proves nothing" | "left out";

const SHOWN: Record<Verdict, string> = {
  caught: "caught",
  equivalent: "equivalent",
  survived: "SURVIVED",
  "proves nothing": "PROVES NOTHING",
  "left out": "left out",
};

/** Tries each mutant and says what became of it. Returns whether none survived, and each was proof. */
export async function tryMutants({ root, invariants, trees, withinMs, say }: Trial): Promise<boolean> {
  const began = performance.now();
  const leftMs = (): number => withinMs - (performance.now() - began);
  const planned = invariants.flatMap(({ id, mutants }) => mutants.map((mutant) => ({ id, mutant })));
  const verdicts = new Map<Planned, Verdict>();
  // A project's tests run in a process that stays.
  const queue = [...planned].sort((one, other) => projectOf(one).localeCompare(projectOf(other)));
  const unbroken = new Unbroken();
  await Promise.all(
    Array.from({ length: Math.min(trees, planned.length) }, async () => {
      const tree = new SpareTree(root);
      const remove = () => tree.remove();
      process.once("exit", remove);
      try {
        for (let next = queue.shift(); next; next = queue.shift()) {
          const startedAt = performance.now();
          const [verdict, why] = await judge(tree, next.mutant, { unbroken, leftMs });
          verdicts.set(next, verdict);
          const seconds = ((performance.now() - startedAt) / 1000).toFixed(1).padStart(5);
          say(
            `${seconds} s  ${next.id.padEnd(4)} ${SHOWN[verdict]}: ${next.mutant.name}${why && ` (${why})`}`,
          );
        }
      } finally {
        process.off("exit", remove);
        remove();
      }
    }),
  );
  sayCounts(invariants, { verdicts, say });
  return ![...verdicts.values()].some((verdict) => verdict === "survived" || verdict === "proves nothing");
}

function projectOf({ mutant }: Planned): string {
  return "equivalent" in mutant ? "" : (mutant.tests[0]?.project ?? "");
}

interface Judging {
  readonly unbroken: Unbroken;
  readonly leftMs: () => number;
}

async function judge(
  tree: SpareTree,
  mutant: Mutant,
  { unbroken, leftMs }: Judging,
): Promise<readonly [Verdict, string]> {
  if ("equivalent" in mutant) return ["equivalent", mutant.equivalent];
  for (const test of mutant.tests) {
    if (leftMs() <= 0) return ["left out", ""];
    const outcome = await tree.runBroken(mutant, test, limitOf(leftMs()));
    if (outcome.kind === "passed") continue;
    if (outcome.kind === "failed") {
      const without = await unbroken.run(tree, { test, leftMs });
      if (without.kind === "passed") return ["caught", outcome.test];
      if (leftMs() <= 0) return ["left out", ""];
      return ["proves nothing", `${test.file} does not pass without it either: ${whyOf(without)}`];
    }
    return leftMs() <= 0 ? ["left out", ""] : ["proves nothing", `${test.file}: ${whyOf(outcome)}`];
  }
  return ["survived", mutant.tests.map(({ file }) => file).join(", ")];
}

function limitOf(leftMs: number): number {
  return Math.max(1, Math.min(TEST_MS, leftMs));
}

function whyOf(outcome: Outcome): string {
  if (outcome.kind === "failed") return outcome.test;
  return outcome.kind === "passed" ? "it passes" : `${outcome.kind}: ${outcome.why}`;
}

/** Tests run on the code as it is, each once. */
class Unbroken {
  readonly #outcomes = new Map<string, Promise<Outcome>>();

  run(tree: SpareTree, { test, leftMs }: { test: TestRun; leftMs: () => number }): Promise<Outcome> {
    const key = JSON.stringify(test);
    const outcome = this.#outcomes.get(key) ?? tree.run(test, limitOf(leftMs()));
    this.#outcomes.set(key, outcome);
    return outcome;
  }
}

function sayCounts(
  invariants: readonly Invariant[],
  { verdicts, say }: { verdicts: ReadonlyMap<Planned, Verdict>; say: (line: string) => void },
): void {
  const count = (of: readonly Verdict[]): string =>
    Object.keys(SHOWN)
      .map((verdict) => [verdict, of.filter((one) => one === verdict).length] as const)
      .filter(([, times]) => times > 0)
      .map(([verdict, times]) => `${times} ${verdict}`)
      .join(", ");
  say("");
  for (const { id } of invariants) {
    const of = [...verdicts].flatMap(([{ id: other }, verdict]) => (other === id ? [verdict] : []));
    if (of.length > 0) say(`invariant ${id.padEnd(4)} ${count(of)}`);
  }
  say(`${verdicts.size} mutants: ${count([...verdicts.values()])}`);
}
