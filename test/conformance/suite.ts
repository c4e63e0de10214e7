import type { Door } from "../support/keys.ts";

/**
 * Tests that others wrote for gateways of S3, run against this one. What each came to is kept in `<suite>/recorded.yaml`
 * (`record.ts`), of which `docs/conformance.md` is made (`page.ts`) by `npm run conformance`. A test runs the suites daily, and
 * holds what they come to to what is recorded.
 */
export interface Suite {
  /** Its folder here. */
  readonly name: string;
  /** How the page names it, with its version. */
  readonly title: string;
  /** What the page says of how it is run, in Markdown. */
  readonly about: string;
  /** Settings of its gateway, beside the root key. */
  readonly variables: Readonly<Record<string, string>>;
  /** What this machine has not that the suite needs, in a word or two, such as `go`. */
  lacks(): Promise<string | undefined>;
  /** Runs all of its tests against a fresh gateway. `folder` is empty, and goes when they have ended. */
  run(door: Door, folder: string): Promise<Outcome[]>;
}

/** What one test came to. */
export interface Outcome {
  readonly test: string;
  readonly passed: boolean;
  /** What a test that did not pass said. */
  readonly said: string;
}
