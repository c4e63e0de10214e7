import { describe, expect, it } from "vitest";
import { MAX_PAIRS } from "../../../protocol/pipeline-check.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { REST } from "../../support/suite.ts";
import { allJobs, commit, makePipeline, makeRepo, query, workUntil } from "./support.ts";

/** So many files on each of two sides make more pairs than a job may have. */
const SIDE = Math.floor(Math.sqrt(MAX_PAIRS)) + 1;

function side(text: string | null): Record<string, string | null> {
  return Object.fromEntries(Array.from({ length: SIDE }, (_, index) => [`f${index}`, text]));
}

async function ended(pipeline: PipelineApi, index: number): Promise<void> {
  await expect
    .poll(async () => (await allJobs(pipeline))[index]?.finishedAt ?? null, { timeout: 60_000 })
    .not.toBeNull();
}

describe("a cross product that is larger than a job may have", () => {
  it("fails its job with the numbers and what to do, makes no pair, and the next job is right again", {
    ...REST,
    timeout: 120_000,
  }, async () => {
    await makeRepo("big-a", "big-b");
    const pipeline = await makePipeline({ name: "big", globs: { "big-a": "/*", "big-b": "/*" } });
    await commit("big-a", { f0: "1" });
    await commit("big-b", { f0: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("big-a", side("1"));
    await commit("big-b", side("1"));
    await ended(pipeline, 2);
    expect((await allJobs(pipeline))[2]).toMatchObject({
      state: "failure",
      reason: `its inputs make ${SIDE * SIDE} datums, ${SIDE} of 'big-a' with ${SIDE} of 'big-b', and a job may have ${MAX_PAIRS}: let a glob match directories instead of the files in them, or less`,
      outputCommit: null,
    });
    const pairs = await query<{ n: number }>("big", "SELECT count(*) AS n FROM datums WHERE born = 3");
    expect(pairs).toEqual([{ n: 0 }]);
    const touched = (): Promise<unknown[]> => query("big", "SELECT count(*) AS n FROM touched");
    await expect.poll(touched, { timeout: 60_000 }).toEqual([{ n: 0 }]);

    await commit("big-b", { ...side(null), f0: "2" });
    await expect.poll(async () => (await allJobs(pipeline))[3]?.state, { timeout: 60_000 }).toBe("running");
    expect((await allJobs(pipeline))[3]?.datums.total).toBe(SIDE);
    // It reads its inputs whole, and what its own commit changed besides: no element counts twice.
    expect(await query("big", "SELECT input, elements FROM sizes ORDER BY input")).toEqual([
      { input: 0, elements: SIDE },
      { input: 1, elements: 1 },
    ]);
  });
});
