import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CONFORMANCE_PAGE, conformancePage, placeOf } from "../../conformance/page.ts";
import { readRecord } from "../../conformance/record.ts";
import { SUITES } from "../../conformance/suites.ts";
import { ROOT } from "../../support/dev-server.ts";

test("docs/conformance.md is what `npm run conformance` makes of what is recorded", () => {
  expect(readFileSync(join(ROOT, CONFORMANCE_PAGE), "utf8")).toBe(conformancePage());
});

test.each(
  SUITES.map(({ name }) => name),
)("%s has no test twice, and each reason stands where it is said to", (name) => {
  const { passes, refused } = readRecord(name);
  const tests = [...passes, ...refused.flatMap((refusal) => refusal.tests)];
  expect(tests.length).toBeGreaterThan(0);
  expect(tests.filter((test, index) => tests.indexOf(test) < index)).toEqual([]);
  for (const { contract } of refused) if (contract !== undefined) placeOf(contract);
});
