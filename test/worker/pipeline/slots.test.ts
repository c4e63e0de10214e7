import { describe, expect, it, vi } from "vitest";
import { feed } from "../../../worker/branch/calls/feed.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { commit, leaseSome, makePipeline, makeRepo, pipelineOf, query, specOf } from "./support.ts";

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
    await pipeline.leases.take({ ...call, worker: "w1", visit: "first" });
    expect(await pipeline.leases.take({ ...call, worker: "w2", visit: "other" })).toMatchObject({
      slot: false,
    });
    await pipeline.leases.vacate({ worker: "w1", visit: "first" });
    expect(await holders("free")).toEqual([]);
    expect(await pipeline.leases.take({ ...call, worker: "w2", visit: "other" })).toMatchObject({
      slot: true,
    });
  });

  it("stays its own if it has called again since", async () => {
    const pipeline = await withOneSlot("again");
    await pipeline.leases.take({ ...call, worker: "w1", visit: "first" });
    await pipeline.leases.take({ ...call, worker: "w1", visit: "second" });
    await pipeline.leases.vacate({ worker: "w1", visit: "first" });
    expect(await holders("again")).toEqual(["w1"]);
  });

  it("stays its own while it is at work: only its connection broke", async () => {
    const pipeline = await withOneSlot("busy");
    await commit("busy-in", { a: "1" });
    const leased = await pipeline.leases.take({ ...call, worker: "w1", visit: "first", waitMs: 10_000 });
    expect(leased.ok && leased.datums).toHaveLength(1);
    await pipeline.leases.take({ ...call, worker: "w1", visit: "second" });
    await pipeline.leases.vacate({ worker: "w1", visit: "second" });
    expect(await holders("busy")).toEqual(["w1"]);
  });
});

describe("the slot of a worker that says that it leaves", () => {
  it("is free when a pipeline that was stopped meanwhile starts again", async () => {
    const pipeline = await withOneSlot("stopped");
    await commit("stopped-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    const leases = datums.map(({ lease }) => lease);
    await pipeline.lifecycle.stop();
    expect(await pipeline.leases.renew({ worker: "w1", leases, leaving: true })).toEqual({ lost: leases });
    expect(await holders("stopped")).toEqual([]);
    await pipeline.lifecycle.start();
    expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: true });
  });

  it("stays its own if it only renews while the pipeline is stopped", async () => {
    const pipeline = await withOneSlot("pauses");
    await pipeline.leases.take({ ...call, worker: "w1" });
    await pipeline.lifecycle.stop();
    expect(await pipeline.leases.renew({ worker: "w1", leases: ["l1"] })).toEqual({ lost: ["l1"] });
    expect(await holders("pauses")).toEqual(["w1"]);
  });

  it("is free while the pipeline is being updated", async () => {
    const pipeline = await withOneSlot("updated");
    await commit("updated-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    const leases = datums.map(({ lease }) => lease);
    const held = Promise.withResolvers<void>();
    const subscribe = feed.subscribe;
    const asked = vi.spyOn(feed, "subscribe").mockImplementation(async (...call) => {
      await held.promise;
      return subscribe(...call);
    });
    await makeRepo("updated-more");
    const spec = specOf({ name: "updated", globs: { "updated-in": "/*", "updated-more": "/*" } });
    const updating = pipeline.specification.update({ spec, reprocess: false });
    await expect.poll(() => asked.mock.calls.length).toBe(1);
    expect(await pipeline.leases.renew({ worker: "w1", leases, leaving: true })).toEqual({ lost: leases });
    expect(await holders("updated")).toEqual([]);
    held.resolve();
    expect((await updating).ok).toBe(true);
    expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: true });
  });

  it("is free in a pipeline that is made again under the name of a deleted one", async () => {
    const pipeline = await withOneSlot("deleted");
    await commit("deleted-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    const leases = datums.map(({ lease }) => lease);
    await pipeline.lifecycle.destroy({ keepOutput: false });
    expect(await pipeline.leases.renew({ worker: "w1", leases, leaving: true })).toEqual({ lost: leases });
    const again = await pipeline.lifecycle.create(specOf({ name: "deleted", globs: { "deleted-in": "/*" } }));
    expect(again.ok).toBe(true);
    expect(await holders("deleted")).toEqual([]);
    expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: true });
  });

  it("was none in a pipeline that never was, and leaving it leaves no trace", async () => {
    const renewed = await pipelineOf("never").leases.renew({ worker: "w1", leases: ["l1"], leaving: true });
    expect(renewed).toEqual({ lost: ["l1"] });
    expect(await query("never", "SELECT name FROM sqlite_master WHERE name = 'slots'")).toEqual([]);
  });
});
