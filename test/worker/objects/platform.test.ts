import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { test } from "vitest";
import { RULES, type TestedObject } from "../../simulator/rules.ts";
import { branchOf, freshBranch, freshBucket } from "../branch/support.ts";

test.each(Object.entries(RULES))("workerd: %s", async (_, rule) => {
  const bucket = freshBucket();
  await freshBranch(bucket);
  // A stub whose object was reset is of no use any more.
  const object: TestedObject = {
    inside: (work) => runInDurableObject(branchOf(bucket), (_object, state) => work(state)),
  };
  while ((await object.inside(({ storage }) => storage.getAlarm())) !== null)
    await runDurableObjectAlarm(branchOf(bucket));
  await rule(object);
});
