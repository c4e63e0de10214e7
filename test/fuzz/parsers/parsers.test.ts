import { expect, test } from "vitest";
import { REST } from "../../support/suite.ts";
import { Tally } from "../tally.ts";
import { PARSERS } from "./fuzzed.ts";

test.for(PARSERS)("$name: what is whole is read as it was, and what is not is refused in words", async ({
  play,
}) => {
  const tally = new Tally();
  await play({ runs: 60 }, tally);
  expect(tally.sums.sent).toBeGreaterThanOrEqual(60);
});

test.for(PARSERS)("$name: the same of many more", REST, async ({ play }) => {
  const tally = new Tally();
  await play({ runs: 600, seed: 28 }, tally);
  // A grammar that is refused at the first look finds nothing.
  expect(tally.sums.good / tally.sums.sent).toBeGreaterThan(0.1);
});
