/**
 * Two suites that share no test and together are all of them: `npm test` runs every test without this tag,
 * `npm run test:rest` every test with it. A whole file has it by `// @module-tag rest` as its first line.
 */
export const REST = { tags: ["rest"] };

/** What a run may hold: the quick suite, the rest, or both. */
export type Suite = "quick" | "rest" | "full";

/** The suite that `SLUICE_SUITE` names. Both, if it is absent: a file that is run by its name runs whole. */
export function suiteOf({
  SLUICE_SUITE: suite = "full",
}: Readonly<Record<string, string | undefined>>): Suite {
  if (suite === "quick" || suite === "rest" || suite === "full") return suite;
  throw new Error(`SLUICE_SUITE is quick, rest or full, not ${suite}`);
}

/** Whether a suite runs a test with these tags. */
export function runs(suite: Suite, tags: readonly string[]): boolean {
  return suite === "full" || tags.includes("rest") === (suite === "rest");
}

/** The cases of a matrix with the options of their tests: every `every`-th, from the first on, is quick. */
export function sampled<T>(cases: readonly T[], { every }: { every: number }): [T, { tags: string[] }][] {
  return cases.map((one, index) => [one, index % every === 0 ? { tags: [] } : REST]);
}
