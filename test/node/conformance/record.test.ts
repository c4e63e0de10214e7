import { describe, expect, test } from "vitest";
import { differences, type Recorded, recordedAnew } from "../../conformance/record.ts";
import type { Outcome } from "../../conformance/suite.ts";

const recorded: Recorded = {
  passes: ["puts", "gets"],
  refused: [
    { why: "Nothing is locked.", contract: "no lock", says: "501.*lock", tests: ["locks", "unlocks"] },
    { why: "Names are other ones.", contract: "names", tests: ["names"] },
  ],
};
const asRecorded: readonly Outcome[] = [
  { test: "puts", passed: true, said: "" },
  { test: "gets", passed: true, said: "" },
  { test: "locks", passed: false, said: "501\nno object lock" },
  { test: "unlocks", passed: false, said: "501 lock" },
  { test: "names", passed: false, said: "anything" },
];

/** The run as recorded, but for one test. */
function but(outcome: Outcome): Outcome[] {
  return asRecorded.map((one) => (one.test === outcome.test ? outcome : one));
}

describe("a run of a suite", () => {
  test("that came to what is recorded differs in nothing", () => {
    expect(differences(recorded, asRecorded)).toEqual([]);
  });

  test.each<[string, readonly Outcome[], string]>([
    [
      "a test that passes by the record failed",
      but({ test: "gets", passed: false, said: "404" }),
      "gets is listed as one that passes, and failed: 404",
    ],
    [
      "a test that is refused by the record passes",
      but({ test: "names", passed: true, said: "" }),
      "names is listed as refused, and passes",
    ],
    [
      "a refusal is another one than is recorded",
      but({ test: "locks", passed: false, said: "500" }),
      "locks is refused for another reason than listed: 500",
    ],
    [
      "a test passes that is not recorded",
      [...asRecorded, { test: "copies", passed: true, said: "" }],
      "copies passes, and is not listed",
    ],
    [
      "a test fails that is not recorded",
      [...asRecorded, { test: "copies", passed: false, said: "403" }],
      "copies failed, and is not listed: 403",
    ],
    ["a recorded test did not run", asRecorded.slice(1), "puts is listed and did not run"],
  ])("differs if %s", (_, outcomes, told) => {
    expect(differences(recorded, outcomes)).toEqual([told]);
  });

  test("differs if a test is recorded twice", () => {
    const twice = { ...recorded, passes: [...recorded.passes, "names"] };
    expect(differences(twice, asRecorded)).toContain("names is listed twice");
  });

  test("is recorded with what passes now; what fails without a reason is a fault, and in no list", () => {
    const outcomes = [
      ...but({ test: "names", passed: true, said: "" }).filter(({ test }) => test !== "unlocks"),
      { test: "copies", passed: false, said: "403" },
    ];
    const { recorded: anew, faults } = recordedAnew(recorded, outcomes);
    expect(anew.passes).toEqual(["gets", "names", "puts"]);
    expect(anew.refused.map(({ tests }) => tests)).toEqual([["locks"]]);
    expect(faults.map(({ test }) => test)).toEqual(["copies"]);
  });
});
