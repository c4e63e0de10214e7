import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ReadCache } from "../../worker/branch/tree/read-cache.ts";
import { REST } from "../support/suite.ts";
import { planOf } from "./history/plan.ts";
import { runHistory } from "./history/run.ts";

/*
 * The entry answers out of what the objects have read. Each answer must be true of some moment between question and answer,
 * as of any read: in histories in which most steps read, and the others change what reads show.
 */

/** How often kinds of steps occur beside each other. */
const WEIGHTS = {
  "S3 request": 30,
  ...{ put: 4, delete: 2, commit: 2, erase: 2, set: 2, create: 1, destroy: 1 },
};

// What went wrong is said in the log, and wrong it goes all the time.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("what is answered out of memory is never stale: in 60 histories", async () => {
  const { wrong, answered } = await histories({ from: 0, to: 60 });
  expect(wrong).toEqual([]);
  expect(answered).toBeGreaterThan(100);
});

test("what is answered out of memory is never stale: in 600 more", REST, async () => {
  expect((await histories({ from: 60, to: 660 })).wrong).toEqual([]);
});

/** What is wrong in the histories of some seeds, and how often memory answered. */
async function histories({ from, to }: { from: number; to: number }): Promise<{
  wrong: string[];
  answered: number;
}> {
  const find = vi.spyOn(ReadCache.prototype, "find");
  const wrong: string[] = [];
  for (let seed = from; seed < to; seed++) {
    const plan = planOf(seed, { clients: 4, steps: 25, weights: WEIGHTS });
    const { faults } = await runHistory(plan);
    if (faults.length > 0) wrong.push(`seed ${seed}: ${faults.join("\n")}`);
  }
  const answered = find.mock.results.filter(({ value }) => value !== undefined).length;
  return { wrong, answered };
}
