import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { z } from "zod";
import type { Outcome } from "./suite.ts";

const Refusal = z
  .strictObject({
    /** Why these tests don't pass, for whoever reads the page. */
    why: z.string(),
    /** The sentence of a page under docs/ that says so, or its beginning. */
    contract: z.string().optional(),
    /** Where AWS documents that S3 does as Sluice does, if the suite wants something else. */
    s3: z.url({ hostname: /^docs\.aws\.amazon\.com$|^www\.rfc-editor\.org$/ }).optional(),
    /** What a test says whose request was refused for that reason: a pattern. Without it, any failure is the one that is meant. */
    says: z.string().optional(),
    tests: z.array(z.string()).min(1),
  })
  .refine(
    ({ contract, s3 }) => contract !== undefined || s3 !== undefined,
    "names the contract or S3's documentation",
  );
export type Refusal = z.infer<typeof Refusal>;

const Recorded = z.strictObject({ refused: z.array(Refusal), passes: z.array(z.string()) });

/** What is known of each test of a suite: it passes, or it is refused by design. */
export type Recorded = z.infer<typeof Recorded>;

/** A suite that was never recorded has nothing. */
export function readRecord(suite: string): Recorded {
  const file = fileOf(suite);
  if (!existsSync(file)) return { refused: [], passes: [] };
  return Recorded.parse(parse(readFileSync(file, "utf8")));
}

export function writeRecord(suite: string, { refused, passes }: Recorded): void {
  writeFileSync(fileOf(suite), stringify({ refused, passes }, { lineWidth: 0 }));
}

function fileOf(suite: string): string {
  return join(import.meta.dirname, suite, "recorded.yaml");
}

/** How a run differs from what is recorded, a line each. */
export function differences(recorded: Recorded, outcomes: readonly Outcome[]): string[] {
  const ran = new Map(outcomes.map((outcome) => [outcome.test, outcome]));
  const passes = new Set(recorded.passes);
  const reasons = reasonsOf(recorded);
  const listed = [...passes, ...reasons.keys()];
  return [
    ...listed.filter((test) => !ran.has(test)).map((test) => `${test} is listed and did not run`),
    ...listed.filter((test, index) => listed.indexOf(test) < index).map((test) => `${test} is listed twice`),
    ...outcomes.flatMap(({ test, passed, said }) => {
      const refusal = reasons.get(test);
      if (passed && refusal) return [`${test} is listed as refused, and passes`];
      if (passed) return passes.has(test) ? [] : [`${test} passes, and is not listed`];
      if (passes.has(test)) return [`${test} is listed as one that passes, and failed: ${said}`];
      if (!refusal) return [`${test} failed, and is not listed: ${said}`];
      return isMeant(refusal, said) ? [] : [`${test} is refused for another reason than listed: ${said}`];
    }),
  ];
}

/** What is recorded, with a run in it, and the tests that nothing recorded explains. */
export function recordedAnew(
  recorded: Recorded,
  outcomes: readonly Outcome[],
): { readonly recorded: Recorded; readonly faults: readonly Outcome[] } {
  const failed = outcomes.filter(({ passed }) => !passed);
  const reasons = reasonsOf(recorded);
  const isFault = ({ test, said }: Outcome): boolean => {
    const refusal = reasons.get(test);
    return refusal === undefined || !isMeant(refusal, said);
  };
  const stay = new Set(failed.filter((outcome) => !isFault(outcome)).map(({ test }) => test));
  const refused = recorded.refused
    .map((refusal) => ({ ...refusal, tests: refusal.tests.filter((test) => stay.has(test)) }))
    .filter(({ tests }) => tests.length > 0);
  const passes = outcomes.filter(({ passed }) => passed).map(({ test }) => test);
  return { recorded: { refused, passes: passes.toSorted() }, faults: failed.filter(isFault) };
}

function reasonsOf({ refused }: Recorded): Map<string, Refusal> {
  return new Map(refused.flatMap((refusal) => refusal.tests.map((test) => [test, refusal] as const)));
}

function isMeant({ says }: Refusal, said: string): boolean {
  return says === undefined || new RegExp(says, "s").test(said);
}
