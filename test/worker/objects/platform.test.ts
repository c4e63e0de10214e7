import { test } from "vitest";
import { RULES } from "../../simulator/rules.ts";
import { testedObject } from "./tested-object.ts";

// Of the rules that take minutes, see `slowRulesMeanwhile`.
test.each(Object.entries(RULES))("workerd: %s", async (_, rule) => {
  await rule(await testedObject());
});
