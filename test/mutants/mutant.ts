/** What must always hold, and mistakes that would break it. */
export interface Invariant {
  /** Its number on docs/invariants.md. */
  readonly id: string;
  readonly mutants: readonly Mutant[];
}

/**
 * A mistake that somebody could make: other code in one place. Either a test fails with it, or it changes nothing that
 * anybody could see.
 */
export type Mutant = Mistake & (Caught | Equivalent);

interface Mistake {
  /** One sentence: what would go wrong, so that it must be caught. */
  readonly name: string;
  /** From the root of the repository. */
  readonly file: string;
  /** Is in the file exactly once. */
  readonly text: string;
  readonly replacement: string;
}

interface Caught {
  /** Tried in this order until one fails. */
  readonly tests: readonly TestRun[];
}

interface Equivalent {
  /** Why nobody can tell the mutant from the code as it is. */
  readonly equivalent: string;
}

export interface TestRun {
  /** A project of vitest.config.ts. */
  readonly project: "worker" | "node" | "simulator";
  /** From the root of the repository. */
  readonly file: string;
  /** Part of the titles of the tests that are run. Absent: all of the file are. */
  readonly title?: string;
}

export const inWorker = testsIn("worker");
export const inNode = testsIn("node");

/** The tests of a project, by their path in its folder without the ending. */
function testsIn(project: "worker" | "node") {
  return (path: string, title?: string): TestRun => {
    const file = `test/${project}/${path}.test.ts`;
    return title === undefined ? { project, file } : { project, file, title };
  };
}
