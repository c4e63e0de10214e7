import { expect, test } from "vitest";
import { REST } from "../../support/suite.ts";
import { Tally } from "../tally.ts";
import { PARSERS } from "./fuzzed.ts";

test.for(PARSERS)("$name: what is whole is read as it was, and what is not is refused in words", async ({
  play,
}) => {
  const tally = new Tally();
  await play({ runs: 200 }, tally);
  expect(tally.sums.sent).toBeGreaterThanOrEqual(200);
});

test.for(PARSERS)("$name: the same holds for many more", REST, async ({ play }) => {
  const tally = new Tally();
  await play({ runs: 1000, seed: 28 }, tally);
  // A grammar that is refused at the first look finds nothing.
  expect(tally.sums.good / tally.sums.sent).toBeGreaterThan(0.1);
});
