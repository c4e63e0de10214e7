import { expect, test } from "vitest";
import { Simulation } from "./platform/simulation.ts";
import { RULES } from "./rules.ts";

const SEEDS = 20;
const BUCKET = "master.photos";

test.each(Object.entries(RULES))("the simulation: %s", async (_, rule) => {
  for (let seed = 0; seed < SEEDS; seed++) {
    const simulation = new Simulation({ seed });
    await simulation.as(() => simulation.branch(BUCKET).lifecycle.create());
    await simulation.pass(60_000);
    const object = simulation.branches.object(BUCKET);
    expect(object.storage.durableAlarm).toBe(null);
    await simulation.as(() => rule(object));
    simulation.close();
  }
});
