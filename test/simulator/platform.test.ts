import { expect, test } from "vitest";
import { Simulation } from "./platform/simulation.ts";
import { RULES, SIMULATED_RULES, SLOW_RULES, type TestedObject } from "./rules.ts";

const SEEDS = 20;
const BUCKET = "master.photos";

test.each(
  Object.entries({ ...RULES, ...SLOW_RULES, ...SIMULATED_RULES }),
)("the simulation: %s", async (_, rule) => {
  for (let seed = 0; seed < SEEDS; seed++) {
    const simulation = new Simulation({ seed });
    await simulation.as(() => simulation.branch(BUCKET).lifecycle.create());
    await simulation.pass(60_000);
    const object = simulation.branches.object(BUCKET);
    expect(object.storage.durableAlarm).toBe(null);
    const call: TestedObject["call"] = (name, args) => simulation.branches.getByName(BUCKET).call(name, args);
    const tested = { stub: () => object.stub(), inside: object.inside.bind(object), call } as TestedObject;
    await simulation.as(() => rule(tested));
    simulation.close();
  }
});
