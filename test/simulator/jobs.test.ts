import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { REST } from "../support/suite.ts";
import { runJobs, runJobsPlan } from "./history/jobs/jobs.ts";
import { planJobs } from "./history/jobs/plan.ts";
import { reportOfJobs } from "./history/jobs/report.ts";
import { Tally } from "./history/tally.ts";

// What went wrong is said in the log, and wrong it goes all the time.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.spyOn(console, "error").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

describe("each commit of an input has its one job, and each job what a naive computation makes of it, whatever dies, is lost or fails", () => {
  test("in 4 histories", async () => {
    expect(await wrongAmong({ from: 0, to: 4 })).toEqual([]);
  });

  test("in 82 more", REST, async () => {
    expect(await wrongAmong({ from: 4, to: 86 })).toEqual([]);
  });
});

test("a history of pipelines runs in the same way each time", async () => {
  const count = async () => {
    const tally = new Tally();
    await runJobs(3, tally);
    return [...tally.counts].sort();
  };
  expect(await count()).toEqual(await count());
});

test("steps can be left out of a history of pipelines, and the others choose what they chose", async () => {
  const plan = planJobs(4);
  const steps = plan.steps.filter((_, index) => index % 3 !== 0);
  expect(await runJobsPlan({ ...plan, steps })).toEqual([]);
});

/** What is wrong in the histories of some seeds. */
async function wrongAmong({ from, to }: { from: number; to: number }): Promise<string[]> {
  const wrong: string[] = [];
  for (let seed = from; seed < to; seed++) {
    const report = await reportOfJobs(seed);
    if (report !== undefined) wrong.push(report);
  }
  return wrong;
}
