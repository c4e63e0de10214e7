import { describe, expect, it } from "vitest";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { commit, makePipeline, makeRepo, query } from "./support.ts";

const call = { node: "n1", max: 1, waitMs: 0 };

async function withOneSlot(name: string): Promise<PipelineApi> {
  await makeRepo(`${name}-in`);
  return makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
}

async function holders(name: string): Promise<string[]> {
  return (await query<{ worker: string }>(name, "SELECT worker FROM slots")).map(({ worker }) => worker);
}

describe("the slot of a worker whose caller went away while it waited", () => {
  it("is another one's at once", async () => {
    const pipeline = await withOneSlot("free");
    await pipeline.lease({ ...call, worker: "w1", visit: "first" });
    expect(await pipeline.lease({ ...call, worker: "w2", visit: "other" })).toMatchObject({ slot: false });
    await pipeline.vacate({ worker: "w1", visit: "first" });
    expect(await holders("free")).toEqual([]);
    expect(await pipeline.lease({ ...call, worker: "w2", visit: "other" })).toMatchObject({ slot: true });
  });

  it("stays its own where it has called again since", async () => {
    const pipeline = await withOneSlot("again");
    await pipeline.lease({ ...call, worker: "w1", visit: "first" });
    await pipeline.lease({ ...call, worker: "w1", visit: "second" });
    await pipeline.vacate({ worker: "w1", visit: "first" });
    expect(await holders("again")).toEqual(["w1"]);
  });

  it("stays its own while it is at work: only its connection broke", async () => {
    const pipeline = await withOneSlot("busy");
    await commit("busy-in", { a: "1" });
    const leased = await pipeline.lease({ ...call, worker: "w1", visit: "first", waitMs: 10_000 });
    expect(leased.ok && leased.datums).toHaveLength(1);
    await pipeline.lease({ ...call, worker: "w1", visit: "second" });
    await pipeline.vacate({ worker: "w1", visit: "second" });
    expect(await holders("busy")).toEqual(["w1"]);
  });
});
