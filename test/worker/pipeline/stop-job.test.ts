import { env, runInDurableObject } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import type { LeasedDatum, Outcome } from "../../../protocol/runner.ts";
import { AttemptStore } from "../../../worker/pipeline/attempts/attempt-store.ts";
import type { JobWork } from "../../../worker/pipeline/context.ts";
import { Ledger } from "../../../worker/pipeline/ledger/ledger.ts";
import { endStep, runningStep } from "../../../worker/pipeline/work/guards.ts";
import {
  allJobs,
  commit,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  pathsOf,
  query,
  workOnce,
  workUntil,
} from "./support.ts";

function success({ lease }: LeasedDatum): Outcome {
  return {
    lease,
    state: "success",
    exitCode: 0,
    outputs: [],
    millis: 1,
    ran: { executor: "process", image: null },
  };
}

describe("a job that is stopped", () => {
  it("is killed at once: its leases are lost, its queue is gone, nothing is committed", async () => {
    await makeRepo("kill-in");
    const pipeline = await makePipeline({ name: "kill", globs: { "kill-in": "/*" } });
    await commit("kill-in", { a: "1", b: "2", c: "3" });
    const { datums } = await leaseSome(pipeline, { max: 1 });
    const [held] = datums;
    const stopped = await pipeline.jobs.stop(held?.job ?? "");
    expect(stopped).toMatchObject({
      ok: true,
      job: {
        state: "killed",
        reason: "it was stopped",
        outputCommit: null,
        datums: { total: 3, processed: 0 },
      },
    });
    const lease = held?.lease ?? "";
    expect(await pipeline.leases.renew({ worker: "w1", leases: [lease] })).toEqual({ lost: [lease] });
    expect(await pipeline.leases.finish({ worker: "w1", outcomes: held ? [success(held)] : [] })).toEqual({
      lost: [lease],
    });
    expect(await workOnce(pipeline, {})).toEqual([]);
    expect(await filesOf({ repo: "kill", branch: "master" })).toEqual([]);
    await expect
      .poll(() => query("kill", "SELECT DISTINCT state FROM attempts"))
      .toEqual([{ state: "killed" }]);
    expect(await query("kill", "SELECT id FROM results")).toEqual([]);
  });

  it("records nothing under its leases from that moment on, before its attempts are called off", async () => {
    await makeRepo("moment-in");
    const pipeline = await makePipeline({ name: "moment", globs: { "moment-in": "/*" } });
    await commit("moment-in", { a: "1", b: "2" });
    const { datums } = await leaseSome(pipeline);
    const leases = datums.map(({ lease }) => lease);
    const callOff = vi.spyOn(AttemptStore.prototype, "callOff").mockImplementation(() => {
      throw new Error("not yet");
    });
    await pipeline.jobs.stop(datums[0]?.job ?? "");
    const renewed = await pipeline.leases.renew({ worker: "w1", leases });
    const finished = await pipeline.leases.finish({ worker: "w1", outcomes: datums.map(success) });
    callOff.mockRestore();
    expect([renewed.lost, finished.lost]).toEqual([leases, leases]);
    expect(await query("moment", "SELECT id FROM results")).toEqual([]);
  });

  it("does no further step that was prepared before", async () => {
    await makeRepo("step-in");
    const pipeline = await makePipeline({ name: "step", globs: { "step-in": "/*" } });
    await commit("step-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    const done = await runInDurableObject(env.PIPELINE.getByName("step"), (_, { storage }) => {
      const ledger = new Ledger(storage);
      const [definition, job] = [ledger.active(), ledger.jobs.byId(datums[0]?.job ?? "")];
      const of = { ledger, definition, job } as JobWork;
      const steps = () => [runningStep(of, () => "run"), endStep(of, () => "end")];
      const before = steps();
      storage.sql.exec("UPDATE jobs SET finishedAt = 1");
      const after = steps();
      storage.sql.exec("UPDATE jobs SET finishedAt = NULL");
      return { before, after };
    });
    expect(done).toEqual({ before: ["run", "end"], after: [undefined, undefined] });
  });

  it("can be stopped again, which changes nothing; one that has ended can't be", async () => {
    await makeRepo("twice-in");
    const pipeline = await makePipeline({ name: "twice", globs: { "twice-in": "/*" } });
    await commit("twice-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const [done] = await allJobs(pipeline);
    expect(await pipeline.jobs.stop(done?.id ?? "")).toEqual({ ok: false, reason: "job-ended" });
    await commit("twice-in", { b: "1" });
    const { datums } = await leaseSome(pipeline);
    const id = datums[0]?.job ?? "";
    const first = await pipeline.jobs.stop(id);
    expect(await pipeline.jobs.stop(id)).toEqual(first);
    expect(await pipeline.jobs.stop("none")).toEqual({ ok: false, reason: "no-such-job" });
  });

  it("can't be stopped while its output is being committed", async () => {
    await makeRepo("late-in");
    const pipeline = await makePipeline({ name: "late", globs: { "late-in": "/*" } });
    await commit("late-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    await query("late", "UPDATE jobs SET committing = 1");
    const id = datums[0]?.job ?? "";
    expect(await pipeline.jobs.stop(id)).toEqual({ ok: false, reason: "job-ending" });
  });

  it("leaves what it had not done to the next job that has it", async () => {
    await makeRepo("heir-in");
    const pipeline = await makePipeline({ name: "heir", globs: { "heir-in": "/*" } });
    await commit("heir-in", { a: "1", b: "1" });
    await commit("heir-in", { b: null, c: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(2);
    const [first] = await allJobs(pipeline);
    await pipeline.jobs.stop(first?.id ?? "");
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["a", "c"]);
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["killed", "success"]);
    expect(await filesOf({ repo: "heir", branch: "master" })).toEqual(["a.out", "c.out"]);
  });

  it("behind another one ends before that, and takes nothing from the job after it", async () => {
    await makeRepo("mid-in");
    const pipeline = await makePipeline({ name: "mid", globs: { "mid-in": "/*" }, workers: 2 });
    await commit("mid-in", { evil: "1" });
    await commit("mid-in", { b: "1" });
    await commit("mid-in", { c: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(3);
    const [, second] = await allJobs(pipeline);
    await pipeline.jobs.stop(second?.id ?? "");
    let left = 3;
    const ran = await workUntil(pipeline, {
      jobs: 3,
      command: (datum) => {
        const path = pathsOf(datum)[0] ?? "";
        return path === "evil" && left-- > 0 ? "fail" : { [path]: "x" };
      },
    });
    // "evil" failed in the first job, "b" was called off in the second: the third has to run both.
    const [one, , three] = await allJobs(pipeline);
    const third = ran.filter(({ job }) => job === three?.id).map(({ paths }) => paths[0]);
    expect(third.sort()).toEqual(["b", "c", "evil"]);
    expect(one?.state).toBe("failure");
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["failure", "killed", "success"]);
    expect(await filesOf({ repo: "mid", branch: "master" })).toEqual(["b", "c", "evil"]);
  });

  it("lets a datum that a later job waited for run for that one", async () => {
    await makeRepo("wait-in");
    const pipeline = await makePipeline({ name: "wait", globs: { "wait-in": "/*" }, workers: 2 });
    await commit("wait-in", { a: "1" });
    await commit("wait-in", { a: null });
    await commit("wait-in", { a: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(3);
    const { datums } = await leaseSome(pipeline, { worker: "w1" });
    const [first, , third] = await allJobs(pipeline);
    expect(datums[0]?.job).toBe(first?.id);
    await pipeline.jobs.stop(first?.id ?? "");
    const again = await leaseSome(pipeline, { worker: "w2" });
    expect(again.datums.map(({ job, datum }) => [job, datum])).toEqual([[third?.id, datums[0]?.datum]]);
    const lost = await pipeline.leases.finish({ worker: "w1", outcomes: datums.map(success) });
    expect(lost.lost).toHaveLength(1);
    await pipeline.leases.finish({ worker: "w2", outcomes: again.datums.map(success) });
    await workUntil(pipeline, { jobs: 3 });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["killed", "success", "success"]);
  });

  it("while its datums are being worked out still hands them on whole", async () => {
    await makeRepo("slow-in");
    const pipeline = await makePipeline({ name: "slow", globs: { "slow-in": "/*" }, workers: 2 });
    await commit("slow-in", Object.fromEntries(Array.from({ length: 1500 }, (_, n) => [`f${n}`, "x"])));
    let id = "";
    while (id === "") {
      const [job] = await allJobs(pipeline);
      if (job) id = job.id;
    }
    const stopped = await pipeline.jobs.stop(id);
    expect(stopped).toMatchObject({ ok: true, job: { state: "killed" } });
    await commit("slow-in", { f0: null });
    await workUntil(pipeline, { jobs: 2, max: 64, command: () => ({}) });
    const [, second] = await allJobs(pipeline);
    expect(second).toMatchObject({
      state: "success",
      datums: { total: 1499, processed: 1499, skipped: 0, failed: 0 },
    });
  }, 60_000);
});
