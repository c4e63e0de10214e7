import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { REST } from "../support/suite.ts";
import { runNear } from "./history/near.ts";

/*
 * What a gateway keeps near the reader. Of the newest state, of tags and of open commits each answer must be true of some moment
 * between question and answer, as of any read; of a commit also of one in the five seconds before, and so of the newest state where a
 * branch is set so: but whoever asks after somebody was told of a commit sees nothing older. In the end the cache has no copy of
 * what is gone.
 */

// What went wrong is said in the log, and wrong it goes all the time.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("what is kept near the reader is never stale: in 60 histories", async () => {
  const { wrong, answered } = await histories({ from: 0, to: 60 });
  expect(wrong).toEqual([]);
  for (const by of ["unchanged newest", "cache commit", "cache newest"])
    expect(answered.get(by), by).toBeGreaterThan(50);
  expect(answered.get("unchanged commit")).toBeGreaterThan(3);
});

// Parts, each of which ends long before a test's time is up.
const MORE = "what is kept near the reader is never stale: in 100 more, from seed %i on";
test.each([60, 160, 260, 360, 460, 560])(MORE, REST, async (from) => {
  expect((await histories({ from, to: from + 100 })).wrong).toEqual([]);
});

/** What is wrong in the histories of some seeds, and how often reads of what were answered by what. */
async function histories({ from, to }: { from: number; to: number }): Promise<{
  wrong: string[];
  answered: Map<string, number>;
}> {
  const answered = new Map<string, number>();
  const wrong: string[] = [];
  for (let seed = from; seed < to; seed++)
    for (const fault of await runNear(seed, answered)) wrong.push(`seed ${seed}: ${fault}`);
  return { wrong, answered };
}
