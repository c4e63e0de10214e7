import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { test } from "vitest";
import { RULES, type TestedObject } from "../../simulator/rules.ts";
import { branchOf, freshBranch, freshBucket } from "../branch/support.ts";

test.each(Object.entries(RULES))("workerd: %s", async (_, rule) => {
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
  const object: TestedObject = { stub, inside: (work) => stub().inside(work) };
  while ((await object.inside(({ storage }) => storage.getAlarm())) !== null)
    await runDurableObjectAlarm(branchOf(bucket));
  await rule(object);
});
