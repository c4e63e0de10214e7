import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import {
  allJobs,
  commit,
  dueLoops,
  leaseSome,
  makePipeline,
  makeRepo,
  pathsOf,
  query,
  workUntil,
} from "./support.ts";

/** Makes the oldest job's time run out, as if it had been its turn for long, and lets the alarm ring. */
async function timeRunsOut(name: string): Promise<void> {
  await query(name, "UPDATE jobs SET turnAt = turnAt - 3600000 WHERE finishedAt IS NULL");
  await runDurableObjectAlarm(env.PIPELINE.getByName(name));
}

describe("datumTries", () => {
  it.each([1, 5])("%i is how often a datum is tried before it fails", async (tries) => {
    const name = `tries-${tries}`;
    await makeRepo(`${name}-in`);
    const pipeline = await makePipeline({
      name,
      globs: { [`${name}-in`]: "/*" },
      more: { datumTries: tries },
    });
    await commit(`${name}-in`, { a: "1" });
    const ran = await workUntil(pipeline, { jobs: 1, command: () => "fail" });
    expect(ran).toHaveLength(tries);
    const after = tries === 1 ? "1 try" : `${tries} tries`;
    expect((await allJobs(pipeline))[0]?.reason).toBe(
      `datum /a failed after ${after}: exit code 3: the command failed: two`,
    );
  });
});

describe("datumTimeout", () => {
  it("goes to the runner with the lease", async () => {
    await makeRepo("limit-in");
    const pipeline = await makePipeline({
      name: "limit",
      globs: { "limit-in": "/*" },
      more: { datumTimeout: "1m30s" },
    });
    await commit("limit-in", { a: "1" });
    expect(await leaseSome(pipeline)).toMatchObject({ datumTimeout: "1m30s" });
  });
});

describe("jobTimeout", () => {
  it("fails a job with nobody at work, takes its leases away and lets the next one try", async () => {
    await makeRepo("time-in");
    const pipeline = await makePipeline({
      name: "time",
      globs: { "time-in": "/*" },
      more: { jobTimeout: "30m" },
    });
    await commit("time-in", { a: "1", b: "1" });
    const { datums } = await leaseSome(pipeline, { max: 1 });
    await timeRunsOut("time");
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({
      state: "failure",
      reason: "the job ran longer than 30m (jobTimeout)",
      outputCommit: null,
    });
    const leases = datums.map(({ lease }) => lease);
    expect(await pipeline.leases.renew({ worker: "w1", leases })).toEqual({ lost: leases });
    await commit("time-in", { c: "1" });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["a", "b", "c"]);
    expect((await allJobs(pipeline))[1]?.state).toBe("success");
  });

  it("is an alarm of the object, set when it is the job's turn", async () => {
    await makeRepo("clock-in");
    const pipeline = await makePipeline({
      name: "clock",
      globs: { "clock-in": "/*" },
      more: { jobTimeout: "1h" },
    });
    await commit("clock-in", { a: "1" });
    await expect.poll(() => dueLoops("clock")).toEqual(["jobTime"]);
    await runDurableObjectAlarm(env.PIPELINE.getByName("clock"));
    const alarm = () =>
      runInDurableObject(env.PIPELINE.getByName("clock"), (_, { storage }) => storage.getAlarm());
    expect(await alarm()).toBeGreaterThan(Date.now() + 3_500_000);
    await workUntil(pipeline, { jobs: 1 });
    await runDurableObjectAlarm(env.PIPELINE.getByName("clock"));
    await expect.poll(() => dueLoops("clock")).toEqual([]);
  });

  it("does not count the time that a job waited for those before it", async () => {
    await makeRepo("turn-in");
    const pipeline = await makePipeline({
      name: "turn",
      globs: { "turn-in": "/*" },
      more: { jobTimeout: "1h" },
    });
    await commit("turn-in", { a: "1" });
    await commit("turn-in", { b: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(2);
    // The first one's turn.
    await expect.poll(() => query("turn", "SELECT n FROM jobs WHERE turnAt IS NOT NULL")).toHaveLength(1);
    await query("turn", "UPDATE jobs SET startedAt = 1");
    await timeRunsOut("turn");
    await workUntil(pipeline, { jobs: 2, command: (datum) => ({ [pathsOf(datum)[0] ?? ""]: "x" }) });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["failure", "success"]);
  });

  it("lets a job that commits its output end by that", async () => {
    await makeRepo("end-in");
    const pipeline = await makePipeline({
      name: "end",
      globs: { "end-in": "/*" },
      more: { jobTimeout: "1h" },
    });
    await commit("end-in", { a: "1" });
    await leaseSome(pipeline);
    await query("end", "UPDATE jobs SET committing = 1");
    await timeRunsOut("end");
    expect((await allJobs(pipeline))[0]?.state).toBe("running");
  });
});
