import { describe, expect, it } from "vitest";
import { MAX_EGRESS_ENTRIES, type Task } from "../../../protocol/runner.ts";
import type { PipelineSpec } from "../../../protocol/spec.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { ringAlarms } from "./faults.ts";
import {
  allJobs,
  commit,
  contentOf,
  type EgressTask,
  expireLeases,
  failedTask,
  makePipeline,
  makeRepo,
  outcomeOf,
  pathsOf,
  pipelineOf,
  query,
  type SpecOptions,
  specOf,
  workUntil,
} from "./support.ts";
import { FakeStore, leaseTasks } from "./tasks.ts";

const HERE = { URL: "s3://bucket/dir" };

function optionsOf(name: string, egress: PipelineSpec["egress"] = HERE, workers = 1): SpecOptions {
  return { name, globs: { [`${name}-in`]: "/*" }, workers, more: { datumTries: 2, egress } };
}

async function pushing(name: string, { workers = 1 }: { workers?: number } = {}): Promise<PipelineApi> {
  await makeRepo(`${name}-in`);
  return makePipeline(optionsOf(name, HERE, workers));
}

/** Each datum writes its input's path, with the name of its content. */
const copy = (datum: Parameters<typeof pathsOf>[0]): Record<string, string> => ({
  [pathsOf(datum)[0] ?? ""]: datum.inputs[0]?.content?.digest ?? "",
});

/** What `copy` makes of a text, as the store has it. */
function digestOf(text: string): string {
  return contentOf(contentOf(text).digest).digest;
}

/** Runs datums until something is to be pushed, and leases some of that. */
async function leasePush(pipeline: PipelineApi, worker = "w1"): Promise<EgressTask> {
  for (;;) {
    const leased = await pipeline.leases.take({ node: "n1", worker, max: 10, waitMs: 10_000 });
    if (!leased.ok) throw new Error(leased.reason);
    const [task] = leased.tasks;
    if (task?.kind === "egress") return task;
    const { output } = leased;
    const outcomes = await Promise.all(
      leased.datums.map((datum) => outcomeOf(datum, { command: copy, output })),
    );
    await pipeline.leases.finish({ worker, outcomes });
  }
}

function pushed({ lease }: Task): Parameters<PipelineApi["leases"]["finish"]>[0] {
  return { worker: "w1", outcomes: [{ lease, state: "pushed", millis: 1 }] };
}

describe("egress", () => {
  it("comes after the output commit and before the success, and pushes only what changed", async () => {
    const pipeline = await pushing("steps");
    await commit("steps-in", { a: "1", b: "2" });
    const task = await leasePush(pipeline);
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({
      state: "egressing",
      outputCommit: expect.any(String),
      finishedAt: null,
      reason: "its output is being pushed to s3://bucket/dir",
    });
    expect(task).toMatchObject({
      job: job?.id,
      egress: HERE,
      entries: [
        { path: "a", content: { digest: digestOf("1"), size: 64 } },
        { path: "b", content: { digest: digestOf("2"), size: 64 } },
      ],
    });
    await pipeline.leases.finish(pushed(task));
    expect((await allJobs(pipeline))[0]).toMatchObject({ state: "success", outputCommit: job?.outputCommit });

    await commit("steps-in", { a: null, c: "3" });
    expect((await leasePush(pipeline)).entries).toEqual([
      { path: "a", content: null },
      { path: "c", content: { digest: digestOf("3"), size: 64 } },
    ]);
  });

  it("does not keep a job whose output commit changes nothing", async () => {
    const pipeline = await pushing("same");
    const store = new FakeStore();
    await commit("same-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => ({ out: "x" }), push: store.push });
    await commit("same-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2, command: () => ({ out: "x" }) });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["success", "success"]);
    expect(store.slices).toEqual([["out"]]);
  });

  it("ends with what its worker said of the store, which a later job does not keep", async () => {
    const pipeline = await pushing("noted");
    await commit("noted-in", { a: "1" });
    const task = await leasePush(pipeline);
    const remark = "s3://bucket ignores conditions on writes";
    const outcome = { lease: task.lease, state: "pushed", millis: 1, remark } as const;
    await pipeline.leases.finish({ worker: "w1", outcomes: [outcome] });
    expect((await allJobs(pipeline))[0]).toMatchObject({ state: "success", reason: remark });
    await commit("noted-in", { a: "2" });
    await pipeline.leases.finish(pushed(await leasePush(pipeline)));
    expect((await allJobs(pipeline)).map(({ reason }) => reason)).toEqual([remark, null]);
  });

  it("leaves empty directories out", async () => {
    const pipeline = await pushing("dirs");
    await commit("dirs-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => ({ "empty/": "" }) });
    expect((await allJobs(pipeline))[0]?.state).toBe("success");
  });

  it("goes in slices, to several workers at the same time", async () => {
    const pipeline = await pushing("wide", { workers: 2 });
    const files = Object.fromEntries(
      Array.from({ length: MAX_EGRESS_ENTRIES + 20 }, (_, index) => [`f${index}`, `${index}`]),
    );
    await commit("wide-in", { all: "1" });
    const command = (): Record<string, string> => files;
    const store = new FakeStore();
    await workUntil(pipeline, { jobs: 1, command, push: store.push });
    expect([...store.files.keys()].sort()).toEqual(Object.keys(files).sort());
    expect(store.slices.length).toBeGreaterThan(1);

    await commit("wide-in", { all: null });
    const tasks = [await leasePush(pipeline, "w1"), await leasePush(pipeline, "w2")];
    const paths = tasks.flatMap(({ entries }) => entries.map(({ path }) => path));
    expect(new Set(paths).size).toBe(paths.length);
    expect(tasks.every(({ entries }) => entries.length > 100)).toBe(true);
    for (const task of tasks) await pipeline.leases.finish(pushed(task));
    await workUntil(pipeline, { jobs: 2, push: store.push });
    expect(store.slices.flat().length + paths.length).toBe(2 * (MAX_EGRESS_ENTRIES + 20));
    expect(await query("wide", "SELECT * FROM egress_pending")).toEqual([]);
  }, 60_000);

  it("of a worker that vanishes is done by another one; who comes late changes nothing", async () => {
    const pipeline = await pushing("lost");
    await commit("lost-in", { a: "1" });
    const task = await leasePush(pipeline);
    await expireLeases("lost");
    expect(await pipeline.leases.finish(pushed(task))).toEqual({ lost: [task.lease] });
    const again = await leasePush(pipeline);
    expect(again.entries).toEqual(task.entries);
    expect(await pipeline.leases.finish(pushed(again))).toEqual({ lost: [] });
    expect((await allJobs(pipeline))[0]?.state).toBe("success");
  });

  it("that is given back goes to the next one", async () => {
    const pipeline = await pushing("back");
    await commit("back-in", { a: "1" });
    const { lease, entries } = await leasePush(pipeline);
    await pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, state: "returned" }] });
    expect((await leasePush(pipeline)).entries).toEqual(entries);
  });

  it("that fails datumTries times fails its job, whose output commit stays; the next job goes on where it stopped", async () => {
    const pipeline = await pushing("fail");
    const store = new FakeStore();
    await commit("fail-in", { a: "1", b: "2" });
    store.faults.push("AccessDenied: no", "AccessDenied: still no");
    await workUntil(pipeline, { jobs: 1, command: copy, push: store.push });
    const [failed] = await allJobs(pipeline);
    expect(failed).toMatchObject({
      state: "failure",
      reason: "egress to s3://bucket/dir failed: AccessDenied: still no",
      outputCommit: expect.any(String),
      datums: { total: 2, processed: 2, skipped: 0, failed: 0 },
    });
    await commit("fail-in", { b: null, c: "3" });
    const ran = await workUntil(pipeline, { jobs: 2, command: copy, push: store.push });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["c"]);
    expect((await allJobs(pipeline))[1]?.state).toBe("success");
    expect(store.slices).toEqual([["a", "b", "c"]]);
    expect(Object.fromEntries(store.files)).toEqual({ a: digestOf("1"), c: digestOf("3") });
  });

  it("says what went wrong while it is tried again", async () => {
    const pipeline = await pushing("words");
    await commit("words-in", { a: "1" });
    const task = await leasePush(pipeline);
    await pipeline.leases.finish({ worker: "w1", outcomes: [failedTask(task, "SlowDown")] });
    await leasePush(pipeline);
    expect((await allJobs(pipeline))[0]?.reason).toBe(
      "its output is being pushed to s3://bucket/dir, tried again after: SlowDown",
    );
  });

  it("says that it waits for a runner if there is none", async () => {
    const pipeline = await pushing("alone");
    await commit("alone-in", { a: "1" });
    const { lease } = await leasePush(pipeline);
    await pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, state: "returned" }] });
    expect((await allJobs(pipeline))[0]?.reason).toContain("no live runner");
  });

  it("does not keep a job from being stopped, and what was committed stays and is pushed by the next job", async () => {
    const pipeline = await pushing("stop");
    await commit("stop-in", { a: "1" });
    const task = await leasePush(pipeline);
    const [job] = await allJobs(pipeline);
    const stopped = await pipeline.jobs.stop(job?.id ?? "");
    expect(stopped).toMatchObject({ ok: true, job: { state: "killed", outputCommit: job?.outputCommit } });
    expect(await pipeline.leases.finish(pushed(task))).toEqual({ lost: [task.lease] });
    const store = new FakeStore();
    await commit("stop-in", { b: "1" });
    const ran = await workUntil(pipeline, { jobs: 2, command: copy, push: store.push });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["b"]);
    expect(store.slices).toEqual([["a", "b"]]);
  });

  it("outlives a stop of its pipeline", async () => {
    const pipeline = await pushing("halt");
    await commit("halt-in", { a: "1" });
    await leasePush(pipeline);
    expect(await pipeline.lifecycle.stop()).toMatchObject({ ok: true });
    expect((await allJobs(pipeline))[0]).toMatchObject({
      state: "killed",
      reason: "the pipeline was stopped",
      outputCommit: expect.any(String),
    });
    const store = new FakeStore();
    expect(await pipeline.lifecycle.start()).toMatchObject({ ok: true });
    await workUntil(pipeline, { jobs: 2, push: store.push });
    expect(store.slices).toEqual([["a"]]);
    expect((await allJobs(pipeline))[1]).toMatchObject({ state: "success", datums: { skipped: 1 } });
  });

  it("ends as a failure if its job runs longer than it may", async () => {
    await makeRepo("time-in");
    const pipeline = await makePipeline({
      name: "time",
      globs: { "time-in": "/*" },
      more: { egress: HERE, jobTimeout: "1h" },
    });
    await commit("time-in", { a: "1" });
    await leasePush(pipeline);
    await query("time", "UPDATE jobs SET turnAt = turnAt - 3600000");
    await ringAlarms("time");
    expect((await allJobs(pipeline))[0]).toMatchObject({
      state: "failure",
      reason: "the job ran longer than 1h (jobTimeout)",
      outputCommit: expect.any(String),
    });
  });
});

describe("an update of egress", () => {
  it("that adds it makes one job, which runs no datum and pushes everything", async () => {
    await makeRepo("add-in");
    const { more: _, ...plain } = optionsOf("add");
    const pipeline = await makePipeline(plain);
    await commit("add-in", { a: "1", b: "2" });
    await workUntil(pipeline, { jobs: 1, command: (datum) => ({ ...copy(datum), "dir/": "" }) });
    expect(
      await pipeline.specification.update({ spec: specOf(optionsOf("add")), reprocess: false }),
    ).toMatchObject({
      ok: true,
    });
    const store = new FakeStore();
    expect(await workUntil(pipelineOf("add"), { jobs: 2, push: store.push })).toEqual([]);
    expect((await allJobs(pipeline))[1]).toMatchObject({ state: "success", datums: { skipped: 2 } });
    expect(Object.fromEntries(store.files)).toEqual({ a: digestOf("1"), b: digestOf("2") });
  });

  it("that moves it pushes everything to the new place, also from a job that was pushing", async () => {
    const pipeline = await pushing("move");
    const store = new FakeStore();
    await commit("move-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: copy, push: store.push });
    await commit("move-in", { a: null, b: "2" });
    const before = await leasePush(pipeline);
    const there = { URL: "gs://other/place" };
    await pipeline.specification.update({ spec: specOf(optionsOf("move", there)), reprocess: false });
    const after = await leasePush(pipeline);
    expect(after).toMatchObject({ egress: there, entries: [{ path: "b" }] });
    expect(await pipeline.leases.finish(pushed(before))).toEqual({ lost: [before.lease] });
    await pipeline.leases.finish(pushed(after));
    await workUntil(pipeline, { jobs: 3 });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["success", "success", "success"]);
  });

  it("that only names another secret pushes nothing again", async () => {
    const pipeline = await pushing("secret");
    const store = new FakeStore();
    await commit("secret-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: copy, push: store.push });
    const spec = specOf(optionsOf("secret", { ...HERE, secret: "new-key" }));
    await pipeline.specification.update({ spec, reprocess: false });
    await workUntil(pipeline, { jobs: 2 });
    expect((await allJobs(pipeline))[1]?.state).toBe("success");
  });

  it("that takes it away ends a job that was pushing, and forgets what was pending", async () => {
    const pipeline = await pushing("gone");
    await commit("gone-in", { a: "1" });
    const task = await leasePush(pipeline);
    const { more: _, ...plain } = optionsOf("gone");
    await pipeline.specification.update({ spec: specOf(plain), reprocess: false });
    await workUntil(pipeline, { jobs: 2 });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["success", "success"]);
    expect(await pipeline.leases.finish(pushed(task))).toEqual({ lost: [task.lease] });
    for (const table of ["egress_pending", "egress_moved", "tasks", "ending"]) {
      expect(await query("gone", `SELECT * FROM ${table}`)).toEqual([]);
    }
  });

  it("of a stopped pipeline is done by the job that its start makes", async () => {
    await makeRepo("later-in");
    const { more: _, ...plain } = optionsOf("later");
    const pipeline = await makePipeline(plain);
    await commit("later-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: copy });
    await pipeline.lifecycle.stop();
    await pipeline.specification.update({ spec: specOf(optionsOf("later")), reprocess: false });
    await pipeline.lifecycle.start();
    const store = new FakeStore();
    expect(await workUntil(pipeline, { jobs: 2, push: store.push })).toEqual([]);
    expect(Object.fromEntries(store.files)).toEqual({ a: digestOf("1") });
  });

  it("lists an output of more than one page", async () => {
    await makeRepo("pages-in");
    const { more: _, ...plain } = optionsOf("pages");
    const pipeline = await makePipeline(plain);
    const files = Object.fromEntries(Array.from({ length: 1500 }, (_, index) => [`f${index}`, "x"]));
    await commit("pages-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => files });
    await pipeline.specification.update({ spec: specOf(optionsOf("pages")), reprocess: false });
    const store = new FakeStore();
    await workUntil(pipeline, { jobs: 2, push: store.push });
    expect(store.files.size).toBe(1500);
  }, 60_000);
});

describe("a task", () => {
  it("keeps a worker's slot like a datum, and comes before datums", async () => {
    const pipeline = await pushing("slot");
    await commit("slot-in", { a: "1" });
    const task = await leasePush(pipeline);
    expect(await pipeline.leases.take({ node: "n2", worker: "w2", max: 1, waitMs: 0 })).toMatchObject({
      slot: false,
    });
    await pipeline.leases.finish({ worker: "w1", outcomes: [{ lease: task.lease, state: "returned" }] });
    await commit("slot-in", { b: "1" });
    await expect.poll(async () => (await allJobs(pipeline))[1]?.state).toBe("running");
    const { tasks } = await leaseTasks(pipeline);
    expect(tasks).toHaveLength(1);
    expect(await pipeline.leases.take({ node: "n1", worker: "w1", max: 1, waitMs: 0 })).toMatchObject({
      tasks: [],
      datums: [{ inputs: [{ path: "b" }] }],
    });
  });

  it("that is reported as something else is tried again", async () => {
    const pipeline = await pushing("wrong");
    await commit("wrong-in", { a: "1" });
    const { lease } = await leasePush(pipeline);
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: [
        {
          lease,
          state: "success",
          exitCode: 0,
          outputs: [],
          millis: 1,
          ran: { executor: "process", image: null },
        },
      ],
    });
    await leasePush(pipeline);
    expect((await allJobs(pipeline))[0]?.reason).toContain("reported 'success' instead of 'pushed'");
  });
});
