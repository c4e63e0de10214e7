// @module-tag rest
import { describe, expect, test } from "vitest";
import { differences, readRecord } from "../../conformance/record.ts";
import { runSuite } from "../../conformance/run.ts";
import { SUITES } from "../../conformance/suites.ts";

const MINUTES = 60_000;
const here = await Promise.all(
  SUITES.map(async (suite) => ({ suite, isHere: (await suite.lacks()) === undefined })),
);

describe("what others test S3 with", () => {
  test.each(here.filter(({ isHere }) => isHere).map(({ suite }) => [suite.title, suite] as const))(
    "%s comes to what is recorded of each test",
    { timeout: 20 * MINUTES },
    async (_, suite) => {
      expect(differences(readRecord(suite.name), await runSuite(suite))).toEqual([]);
    },
  );

  test.skip.each(
    here.filter(({ isHere }) => !isHere).map(({ suite }) => suite.title),
  )("%s comes to what is recorded of each test", () => {});
});
