import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeAll, test } from "vitest";
import { SLOW_RULES, type TestedObject } from "../../simulator/rules.ts";
import { branchOf, freshBranch, freshBucket } from "../branch/support.ts";

/** A branch at rest. */
export async function testedObject(): Promise<TestedObject> {
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

/**
 * Rules whose alarms are tried again after seconds, then minutes of the real clock. A file whose own tests take as long has them:
 * they wait while these work. `atEnd` makes the tests that say what came of them.
 */
export function slowRulesMeanwhile(): { atEnd(): void } {
  const begun = new Map<string, Promise<void>>();
  beforeAll(async () => {
    for (const [title, rule] of Object.entries(SLOW_RULES)) begun.set(title, (await beginning(rule)).held);
  });
  return {
    atEnd: () => {
      for (const title of Object.keys(SLOW_RULES))
        test(`workerd: ${title}`, { timeout: 300_000 }, async () => await begun.get(title));
    },
  };
}

/** Begins to ask a rule. Resolves when its alarm is set: the tests of the file may have another clock. */
async function beginning(rule: (typeof SLOW_RULES)[string]): Promise<{ held: Promise<void> }> {
  const { promise: isSet, resolve } = Promise.withResolvers<void>();
  const object = await testedObject();
  const held = rule({ ...object, inside: (work) => object.inside(work).finally(resolve) });
  held.catch(() => {});
  await isSet;
  return { held };
}
