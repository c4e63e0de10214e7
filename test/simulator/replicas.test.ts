import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { REST } from "../support/suite.ts";
import { GUARDS, type Guard, type Guards, guardsWithout, wrongWithout } from "./replicas/guards.ts";
import { replicaPlan, reportOfReplicas, runReplicas } from "./replicas/history.ts";
import { MISCOUNTED, SLOW, STUCK } from "./replicas/stage.ts";

/* The protocol of docs/replicas.md, which nothing of the product has: a model of it is run. */

/** In so many histories it is seen that a guard is missing. */
const FOUND_WITHIN = 300;

describe("a branch with replicas is one register with all its readers, whatever is lost, late or dies", () => {
  test("in 300 histories", async () => {
    const counts = await right({ from: 0, to: 300 });
    // All of it occurs.
    for (const [what, least] of [
      ["read out of memory", 2000],
      ["branch ended", 200],
      ["branch restored", 100],
      ["replica ended", 300],
      ["replica cut off", 300],
      ["clock set back", 100],
      ["clock set forward", 100],
    ] as const) {
      expect(counts.get(what), what).toBeGreaterThan(least);
    }
  });

  test("in 9,700 more", REST, async () => {
    await right({ from: 300, to: 10_000 });
  });
});

/** Runs the histories of some seeds, in which nothing may be wrong, and says how often what occurred. */
async function right({ from, to }: { from: number; to: number }): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (let seed = from; seed < to; seed++) {
    const stage = await runReplicas(replicaPlan(seed));
    expect(stage.faults(), `seed ${seed}`).toEqual([]);
    for (const [what, count] of stage.counts) counts.set(what, (counts.get(what) ?? 0) + count);
  }
  return counts;
}

test.each(
  GUARDS,
)(`without "%s" that is wrong which must be, in one of ${FOUND_WITHIN} histories`, async (guard) => {
  const guards = guardsWithout(guard);
  for (let seed = 0; seed < FOUND_WITHIN; seed++) {
    if (await isMissed(guard, seed, guards)) return;
  }
  expect.unreachable(`nobody misses "${guard}"`);
});

async function isMissed(guard: Guard, seed: number, guards: Guards): Promise<boolean> {
  const faults = (await runReplicas(replicaPlan(seed), guards)).faults();
  const wrong = wrongWithout(guard);
  if (wrong === "slow") return faults.includes(SLOW);
  if (wrong === "count") return faults.includes(MISCOUNTED);
  return faults.some((fault) => ![SLOW, STUCK, MISCOUNTED].includes(fault));
}

test("a history without a guard is told with as few steps as it takes", async () => {
  const report = await reportOfReplicas(0, guardsWithout("writes wait"));
  expect(report).toMatch(/history 0, \d+ of 72 steps/);
  expect(report).toContain("which was true of none of");
});

test("the page on replicas names each guard, and in how many histories it is missed", () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/replicas.md"), "utf8");
  const guards = [...page.matchAll(/^\| \*\*(.+?)\*\* \|/gm)].map(([, guard]) => guard);
  expect(guards.sort()).toEqual([...GUARDS].sort());
  expect(page).toContain(`within ${FOUND_WITHIN} histories`);
});
