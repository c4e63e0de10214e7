import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import {
  commit,
  dueLoops,
  echo,
  leaseSome,
  makePipeline,
  makeRepo,
  outcomeOf,
  query,
  workUntil,
} from "./support.ts";

/** More rings than any work takes that needs no runner. */
const MANY = 10;

/** Lets the alarm ring, as the platform does when it is due, until none stands; false if one always does. */
async function comesToRest(name: string): Promise<boolean> {
  for (let rings = 0; rings < MANY; rings++) {
    if (!(await runDurableObjectAlarm(env.PIPELINE.getByName(name)))) return true;
  }
  return false;
}

async function alarmOf(name: string): Promise<number | null> {
  return runInDurableObject(env.PIPELINE.getByName(name), (_, state) => state.storage.getAlarm());
}

/** An alarm that rings by itself just then is none that stands: what it does may not have come to its end. */
async function expectRest(name: string): Promise<void> {
  await expect
    .poll(async () => ({
      rest: await comesToRest(name),
      alarm: await alarmOf(name),
      loops: await dueLoops(name),
    }))
    .toEqual({ rest: true, alarm: null, loops: [] });
}

describe("a pipeline with nothing to do comes to rest: no alarm stands", () => {
  it("after its jobs have ended and what they left is trimmed", async () => {
    await makeRepo("ended-in");
    const more = { jobTimeout: "1h" };
    const pipeline = await makePipeline({ name: "ended", globs: { "ended-in": "/*" }, more });
    for (const text of ["1", "2", "3"]) await commit("ended-in", { a: text, b: text });
    await workUntil(pipeline, { jobs: 3 });
    await expectRest("ended");
    expect(await query("ended", "SELECT path FROM ended_elements WHERE died <= 2")).toEqual([]);
  });

  it("while it waits for data, or for a runner", async () => {
    await makeRepo("waits-in");
    await makePipeline({ name: "waits", globs: { "waits-in": "/*" } });
    await expectRest("waits");
    await commit("waits-in", { a: "1" });
    await expect.poll(() => query("waits", "SELECT 1 FROM attempts")).toHaveLength(1);
    await expectRest("waits");
  });

  it("after a stop", async () => {
    await makeRepo("stops-in");
    const pipeline = await makePipeline({ name: "stops", globs: { "stops-in": "/*" } });
    await commit("stops-in", { a: "1" });
    await leaseSome(pipeline);
    await pipeline.lifecycle.stop();
    await expectRest("stops");
  });

  it("after it was deleted", async () => {
    await makeRepo("goes-in");
    const pipeline = await makePipeline({ name: "goes", globs: { "goes-in": "/*" } });
    await commit("goes-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.destroy({ keepOutput: false });
    await expectRest("goes");
  });

  it("but not while a lease may run out: then one stands for that", async () => {
    await makeRepo("leased-in");
    const pipeline = await makePipeline({ name: "leased", globs: { "leased-in": "/*" } });
    await commit("leased-in", { a: "1" });
    const { datums, output } = await leaseSome(pipeline);
    await runDurableObjectAlarm(env.PIPELINE.getByName("leased"));
    expect(await dueLoops("leased")).toEqual(["leases"]);
    const [row] = await query<{ until: number }>("leased", "SELECT leaseUntil AS until FROM attempts");
    expect(await alarmOf("leased")).toBe(row?.until);
    const outcomes = await Promise.all(datums.map((datum) => outcomeOf(datum, { command: echo, output })));
    await pipeline.leases.finish({ worker: "w1", outcomes });
    await workUntil(pipeline, { jobs: 1 });
    await expectRest("leased");
  });
});
