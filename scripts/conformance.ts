import { writeFileSync } from "node:fs";
import { CONFORMANCE_PAGE, conformancePage } from "../test/conformance/page.ts";
import { differences, readRecord, recordedAnew, writeRecord } from "../test/conformance/record.ts";
import { runSuite } from "../test/conformance/run.ts";
import type { Suite } from "../test/conformance/suite.ts";
import { SUITES } from "../test/conformance/suites.ts";

/**
 * `npm run conformance -- <suite>…`: runs the suites, or all, writes down what passes, and makes docs/conformance.md anew. Names
 * the tests that fail and are recorded as refused nowhere, and then ends with 1: each is mended, or gets its reason in
 * `recorded.yaml` by hand. With `--check` nothing is written, and every difference is named.
 */
async function main(args: readonly string[]): Promise<void> {
  const check = args.includes("--check");
  const names = args.filter((arg) => arg !== "--check");
  const known = new Map(SUITES.map((suite) => [suite.name, suite]));
  const unknown = names.find((name) => !known.has(name));
  if (unknown !== undefined) throw new Error(`${unknown} is none of ${[...known.keys()].join(", ")}`);
  for (const suite of names.length > 0 ? names.flatMap((name) => known.get(name) ?? []) : SUITES) {
    const problems = await hold(suite, { check });
    for (const problem of problems) console.log(problem);
    if (problems.length > 0) process.exitCode = 1;
  }
  if (!check) writeFileSync(CONFORMANCE_PAGE, conformancePage());
}

async function hold(suite: Suite, { check }: { readonly check: boolean }): Promise<string[]> {
  const lacks = await suite.lacks();
  if (lacks !== undefined) return [`${suite.title} needs ${lacks}`];
  const began = Date.now();
  const outcomes = await runSuite(suite);
  const passed = outcomes.filter((outcome) => outcome.passed).length;
  const seconds = Math.round((Date.now() - began) / 1000);
  console.log(`${suite.title}: ${passed} of ${outcomes.length} pass (${seconds} s)`);
  const before = readRecord(suite.name);
  if (check) return differences(before, outcomes);
  const { recorded, faults } = recordedAnew(before, outcomes);
  writeRecord(suite.name, recorded);
  return faults.map(({ test, said }) => `${test}: ${said}`);
}

await main(process.argv.slice(2));
process.exit();
