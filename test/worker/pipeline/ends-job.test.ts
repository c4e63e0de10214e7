import { describe, expect, it } from "vitest";
import type { LeasedDatum, Outcome } from "../../../protocol/runner.ts";
import { allJobs, commit, leaseSome, makePipeline, makeRepo, pathsOf, query, workUntil } from "./support.ts";

/** What a runner says if no datum of the job can run. */
function hopeless({ lease }: LeasedDatum): Outcome {
  const reason = "the secret 'key' is not there";
  return { lease, state: "failed", blame: "node", exitCode: null, reason, log: "", millis: 1, endsJob: true };
}

describe("a failure that no other datum of the job would escape", () => {
  it("ends the job at once, with its reason, and nothing of it is tried again before the next job", async () => {
    await makeRepo("secret-in");
    const pipeline = await makePipeline({ name: "secret", globs: { "secret-in": "/*" } });
    await commit("secret-in", { a: "1", b: "1", c: "1" });
    const { datums } = await leaseSome(pipeline, { max: 2 });
    const [first, second] = datums;
    if (!first || !second) throw new Error(`${datums.length} datums`);
    expect(
      await pipeline.leases.finish({ worker: "w1", outcomes: [hopeless(first), hopeless(second)] }),
    ).toEqual({
      lost: [second.lease],
    });
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({
      state: "failure",
      reason: "the secret 'key' is not there",
      outputCommit: null,
      datums: { total: 3, processed: 0, failed: 1 },
    });
    expect(await pipeline.leases.take({ node: "n1", worker: "w1", max: 10, waitMs: 0 })).toMatchObject({
      datums: [],
    });
    const page = await pipeline.datums.list({ job: job?.id ?? "", limit: 10 });
    const failed = page.ok && page.datums.filter(({ state }) => state === "failed");
    expect(failed).toMatchObject([{ tries: 1, exitCode: null, reason: "the secret 'key' is not there" }]);

    await commit("secret-in", { d: "1" });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["a", "b", "c", "d"]);
    expect((await allJobs(pipeline))[1]?.state).toBe("success");
  });

  it("in a job behind another one ends that one only", async () => {
    await makeRepo("behind-in");
    const pipeline = await makePipeline({ name: "behind", globs: { "behind-in": "/*" }, workers: 2 });
    await commit("behind-in", { a: "1" });
    const older = await leaseSome(pipeline, { worker: "w1" });
    await commit("behind-in", { b: "1" });
    const behind = await leaseSome(pipeline, { worker: "w2" });
    await pipeline.leases.finish({ worker: "w2", outcomes: behind.datums.map(hopeless) });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["running", "failure"]);
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: older.datums.map(({ lease }) => ({
        lease,
        state: "success",
        exitCode: 0,
        outputs: [],
        millis: 1,
        ran: { executor: "process", image: null },
      })),
    });
    await expect
      .poll(async () => (await allJobs(pipeline)).map(({ state }) => state))
      .toEqual(["success", "failure"]);
  });

  it("costs each job that waited for the same datum one try", async () => {
    await makeRepo("wait-in");
    const pipeline = await makePipeline({ name: "wait", globs: { "wait-in": "/*" } });
    await commit("wait-in", { a: "1" });
    await commit("wait-in", { a: null });
    await commit("wait-in", { a: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(3);
    const first = await leaseSome(pipeline);
    await pipeline.leases.finish({ worker: "w1", outcomes: first.datums.map(hopeless) });
    const second = await leaseSome(pipeline);
    expect(second.datums.map(pathsOf)).toEqual([["a"]]);
    await pipeline.leases.finish({ worker: "w1", outcomes: second.datums.map(hopeless) });
    await expect
      .poll(async () => (await allJobs(pipeline)).map(({ state }) => state))
      .toEqual(["failure", "success", "failure"]);
    expect(await query("wait", "SELECT job, tries FROM attempts ORDER BY job")).toEqual([
      { job: 1, tries: 1 },
      { job: 3, tries: 1 },
    ]);
  });
});

describe("a datum", () => {
  it("that is reported as a task is tried again", async () => {
    await makeRepo("odd-in");
    const pipeline = await makePipeline({ name: "odd", globs: { "odd-in": "/*" } });
    await commit("odd-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: datums.map(({ lease }) => ({ lease, state: "pushed", millis: 1 })),
    });
    const [job] = await allJobs(pipeline);
    const page = await pipeline.datums.list({ job: job?.id ?? "", limit: 1 });
    expect(page.ok && page.datums[0]).toMatchObject({
      state: "queued",
      tries: 1,
      reason: "its worker reported 'pushed' for a datum",
    });
  });

  it("comes with how its inputs are shown", async () => {
    await makeRepo("lazy-in");
    const pipeline = await makePipeline({
      name: "lazy",
      globs: {},
      more: { inputs: [{ repo: { name: "lazy-in" }, glob: "/*", lazy: true }] },
    });
    await commit("lazy-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    expect(datums[0]?.inputs).toMatchObject([{ name: "lazy-in", lazy: true, from: null }]);
  });
});
