import { describe, it } from "vitest";
import { sampled } from "../../support/suite.ts";
import { Run } from "./model/run.ts";

/** Another first seed is another set of histories. */
const FIRST_SEED = 1;
const RUNS = 24;

describe.concurrent("a pipeline under random commits, deletions, updates, failures and deaths", () => {
  const seeds = Array.from({ length: RUNS }, (_, index) => FIRST_SEED + index);
  for (const [seed, options] of sampled(seeds, { every: 24 }))
    it(`does what a naive model says, with seed ${seed}`, { ...options, timeout: 300_000 }, async () => {
      const run = await Run.begin({ name: `model-${seed}`, seed });
      try {
        for (let steps = 30 + ((seed * 7) % 31); steps > 0; steps--) await run.step();
        await run.end();
      } catch (error) {
        throw new Error(`seed ${seed}: ${error}\n${run.trace.join("\n")}`, { cause: error });
      }
    });
});
