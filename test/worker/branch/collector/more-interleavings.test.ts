// @module-tag rest
import { describe, expect, test } from "vitest";
import { slowRulesMeanwhile } from "../../objects/tested-object.ts";
import { everyOrder, exploresOrders, meetings, nameOf } from "./walks.ts";

// Going through all orders takes as long as the rules of the platform that mostly wait.
const rules = slowRulesMeanwhile();

exploresOrders();

describe("in every order of their steps, names read their bytes and nothing else is left:", () => {
  for (const meeting of meetings(1)) {
    test(nameOf(meeting), { timeout: 300_000 }, async () => {
      const { states } = await everyOrder(...meeting);
      expect(states).toBeGreaterThan(3 ** (meeting.length - 1));
    });
  }
});

rules.atEnd();
