import { env } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LEASE_MS, NODE_TTL_MS } from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { openPeers } from "../../../worker/pipeline/peers.ts";
import { killPipeline } from "./kill.ts";
import { allJobs, commit, leaseSome, makePipeline, makeRepo, pipelineOf } from "./support.ts";

const HOUR_MS = 60 * 60_000;
const call = { node: "n1", max: 5, waitMs: 0 };

const clock = { aheadMs: 0 };

beforeEach(() => {
  const now = Date.now;
  clock.aheadMs = 0;
  vi.spyOn(Date, "now").mockImplementation(() => now() + clock.aheadMs);
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** A pipeline with one slot, whose one datum `w1` runs. */
async function working(name: string): Promise<{ pipeline: PipelineApi; leases: string[] }> {
  await makeRepo(`${name}-in`);
  const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
  await commit(`${name}-in`, { a: "1" });
  const { datums } = await leaseSome(pipeline);
  return { pipeline, leases: datums.map(({ lease }) => lease) };
}

describe("a clock that is set back by an hour", () => {
  it.each([
    { when: "while the pipeline is in memory", end: async () => {} },
    { when: "while it is not in memory", end: killPipeline },
  ])("keeps slot and datum of a dead worker for no longer than a lease lasts, $when", async ({ end }) => {
    const name = end === killPipeline ? "back-gone" : "back";
    const { leases } = await working(name);
    expect(leases).toHaveLength(1);
    clock.aheadMs -= HOUR_MS;
    await end(name);
    const pipeline = pipelineOf(name);
    expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: false });
    clock.aheadMs += LEASE_MS + 1;
    const taken = await pipeline.leases.take({ ...call, worker: "w2" });
    expect(taken).toMatchObject({ slot: true, datums: [{ job: expect.any(String) }] });
    expect(
      await pipeline.leases.finish({
        worker: "w1",
        outcomes: leases.map((lease) => ({ lease, state: "returned" })),
      }),
    ).toEqual({ lost: leases });
  });

  it("takes no lease from a worker that renews it", async () => {
    const { pipeline, leases } = await working("back-renewed");
    clock.aheadMs -= HOUR_MS;
    for (let turn = 0; turn < 3; turn++) {
      expect(await pipeline.leases.renew({ worker: "w1", leases })).toMatchObject({ lost: [] });
      expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: false });
      clock.aheadMs += LEASE_MS - 1000;
    }
  });

  it("makes no call wait longer than it asked for", async () => {
    const { pipeline } = await working("back-waits");
    const [job] = await allJobs(pipeline);
    const waiting = [
      pipeline.leases.take({ ...call, worker: "w1", waitMs: 100 }),
      pipeline.jobs.wait({ id: job?.id ?? "", waitMs: 100 }),
      pipeline.logs.read({ job: job?.id ?? "", after: null, waitMs: 100 }),
    ];
    clock.aheadMs -= HOUR_MS;
    await Promise.all(waiting);
  });

  it("does not keep a pipeline from hearing which nodes live", async () => {
    const { nodes } = openCatalogue(env.DB);
    const { nodes: live } = openPeers(env);
    const node = { executor: "process", capacity: 1, work: [] };
    const names = async () => (await live()).map(({ name }) => name);
    await nodes.record({ ...node, name: "clock-1", seenAt: Date.now() });
    expect(await names()).toContain("clock-1");
    clock.aheadMs -= HOUR_MS;
    // One that lives says so again; one that is dead counts as alive for no longer than it would have.
    await nodes.record({ ...node, name: "clock-2", seenAt: Date.now() });
    expect(await names()).toEqual(expect.arrayContaining(["clock-1", "clock-2"]));
    clock.aheadMs += NODE_TTL_MS + 1;
    await nodes.record({ ...node, name: "clock-2", seenAt: Date.now() });
    expect(await names()).toContain("clock-2");
    expect(await names()).not.toContain("clock-1");
  });
});

describe("a clock that jumps a day forward", () => {
  it("takes neither slot nor datum from a worker that renews its lease as ever", async () => {
    const { pipeline, leases } = await working("forward");
    clock.aheadMs += 24 * HOUR_MS;
    expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: false });
    expect(await pipeline.leases.renew({ worker: "w1", leases })).toMatchObject({ lost: [] });
    expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: false });
  });

  it("gives the datum of a dead worker to another one after the time of a lease", async () => {
    const { pipeline } = await working("forward-dead");
    clock.aheadMs += 24 * HOUR_MS;
    expect(await pipeline.leases.take({ ...call, worker: "w2" })).toMatchObject({ slot: false });
    clock.aheadMs += LEASE_MS + 1;
    const taken = await pipeline.leases.take({ ...call, worker: "w2" });
    expect(taken).toMatchObject({ slot: true, datums: [{ job: expect.any(String) }] });
  });
});
