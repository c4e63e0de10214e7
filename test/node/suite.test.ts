import { expect, test } from "vitest";
import { runs, sampled, suiteOf } from "../support/suite.ts";

test("every test is in exactly one of the two suites, and in the full one", () => {
  for (const tags of [[], ["rest"], ["other"], ["other", "rest"]]) {
    expect(runs("quick", tags)).toBe(!runs("rest", tags));
    expect(runs("full", tags)).toBe(true);
  }
});

test("a sampled matrix keeps every case, once and in order, and the first one is quick", () => {
  for (const length of [0, 1, 7, 20]) {
    const cases = Array.from({ length }, (_, index) => index);
    for (const every of [1, 3, 50]) {
      const matrix = sampled(cases, { every });
      expect(matrix.map(([one]) => one)).toEqual(cases);
      const quick = matrix.filter(([, { tags }]) => runs("quick", tags)).map(([one]) => one);
      expect(quick).toEqual(cases.filter((one) => one % every === 0));
    }
  }
});

test("a variable that names no suite is refused", () => {
  expect(suiteOf({})).toBe("full");
  expect(() => suiteOf({ SLUICE_SUITE: "fast" })).toThrow("SLUICE_SUITE is quick, rest or full, not fast");
});
