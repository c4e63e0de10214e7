import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { test } from "vitest";
import { RULES, SLOW_RULES, type TestedObject } from "../../simulator/rules.ts";
import { REST } from "../../support/suite.ts";
import { branchOf, freshBranch, freshBucket } from "../branch/support.ts";

test.each(Object.entries(RULES))("workerd: %s", async (_, rule) => {
  await rule(await testedObject());
});

// Its alarms are tried again after seconds, then minutes of the real clock.
test.each(Object.entries(SLOW_RULES))("workerd: %s", { ...REST, timeout: 300_000 }, async (_, rule) => {
  await rule(await testedObject());
});

/** A branch at rest. */
async function testedObject(): Promise<TestedObject> {
  const bucket = freshBucket();
  await freshBranch(bucket);
  const stub: TestedObject["stub"] = () => {
    const one = branchOf(bucket);
    return {
      inside: (work) =>
        runInDurableObject(one, (instance, state) => work(state, instance as unknown as DurableObject)),
    };
  };
  // A stub whose object was reset is of no use any more.
  const object: TestedObject = {
    stub,
    inside: (work) => stub().inside(work),
    call: (name, args) => branchOf(bucket).call(name, args),
  };
  while ((await object.inside(({ storage }) => storage.getAlarm())) !== null)
    await runDurableObjectAlarm(branchOf(bucket));
  return object;
}
