import { env } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { REST } from "../../support/suite.ts";
import {
  allJobs,
  commit,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  pipelineOf,
  query,
  workUntil,
} from "./support.ts";

const { pipelines } = openCatalogue(env.DB);

async function stateOf(name: string): Promise<string | undefined> {
  return (await pipelines.list()).find((row) => row.name === name)?.state;
}

describe("a pipeline that is stopped", () => {
  it("says so, kills its unfinished jobs and makes none for what comes", async () => {
    await makeRepo("stop-in");
    const pipeline = await makePipeline({ name: "stop", globs: { "stop-in": "/*" } });
    await commit("stop-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("stop-in", { b: "1" });
    const { datums } = await leaseSome(pipeline);
    expect(await pipeline.lifecycle.stop()).toMatchObject({
      ok: true,
      pipeline: { state: "stopped", version: 1 },
    });
    expect(await stateOf("stop")).toBe("stopped");
    const leases = datums.map(({ lease }) => lease);
    expect(await pipeline.leases.renew({ worker: "w1", leases })).toEqual({ lost: leases });
    await commit("stop-in", { c: "1" });
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ state, reason }) => [state, reason])).toEqual([
      ["success", null],
      ["killed", "the pipeline was stopped"],
    ]);
    expect(await pipeline.leases.take({ node: "n", worker: "w", max: 1, waitMs: 0 })).toMatchObject({
      ok: true,
      slot: false,
      datums: [],
    });
    expect(await filesOf({ repo: "stop", branch: "master" })).toEqual(["a.out"]);
  });

  it("holds no history of its inputs: it does not follow them", async () => {
    await makeRepo("free-in");
    const pipeline = await makePipeline({ name: "free", globs: { "free-in": "/*" } });
    await pipeline.lifecycle.stop();
    expect(await query("free", "SELECT subscribed FROM sources")).toEqual([{ subscribed: 0 }]);
    await commit("free-in", { a: "1" });
    expect(await allJobs(pipeline)).toEqual([]);
    expect(await query("free", "SELECT pullDue FROM pipeline")).toEqual([{ pullDue: 0 }]);
  });

  it("makes exactly one job for the heads when it is started, if they moved", async () => {
    await makeRepo("go-in");
    const pipeline = await makePipeline({ name: "go", globs: { "go-in": "/*" } });
    await commit("go-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.stop();
    await commit("go-in", { a: null });
    await commit("go-in", { b: "2" });
    const head = await commit("go-in", { c: "1" });
    expect(await pipeline.lifecycle.start()).toMatchObject({ ok: true, pipeline: { state: "active" } });
    expect(await stateOf("go")).toBe("active");
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["b", "c"]);
    const jobs = await allJobs(pipeline);
    expect(jobs).toHaveLength(2);
    expect(jobs[1]).toMatchObject({
      inputs: [{ commit: head }],
      datums: { total: 2, processed: 2, skipped: 0, failed: 0 },
    });
    expect(await filesOf({ repo: "go", branch: "master" })).toEqual(["b.out", "c.out"]);
    await commit("go-in", { d: "1" });
    expect((await workUntil(pipeline, { jobs: 3 })).map(({ paths }) => paths[0])).toEqual(["d"]);
  });

  it("makes none when it is started and nothing has moved", async () => {
    await makeRepo("still-in");
    const pipeline = await makePipeline({ name: "still", globs: { "still-in": "/*" } });
    await commit("still-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.stop();
    await pipeline.lifecycle.start();
    await commit("still-in", { b: "1" });
    await workUntil(pipeline, { jobs: 2 });
    expect(await allJobs(pipeline)).toHaveLength(2);
  });

  it("makes the job that its stop left undone, though nothing has moved", async () => {
    await makeRepo("owe-in");
    const pipeline = await makePipeline({ name: "owe", globs: { "owe-in": "/*" } });
    await commit("owe-in", { a: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(1);
    await pipeline.lifecycle.stop();
    await pipeline.lifecycle.start();
    await workUntil(pipeline, { jobs: 2 });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["killed", "success"]);
    expect(await filesOf({ repo: "owe", branch: "master" })).toEqual(["a.out"]);
  });

  it("skips what has its result, though every datum is born again", {
    ...REST,
    timeout: 60_000,
  }, async () => {
    await makeRepo("skip-in");
    const pipeline = await makePipeline({ name: "skip", globs: { "skip-in": "/*" } });
    await commit("skip-in", Object.fromEntries(Array.from({ length: 700 }, (_, n) => [`f${n}`, "x"])));
    await workUntil(pipeline, { jobs: 1, max: 64 });
    await pipeline.lifecycle.stop();
    await commit("skip-in", { f3: "y" });
    await pipeline.lifecycle.start();
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["f3"]);
    expect((await allJobs(pipeline))[1]?.datums).toEqual({
      total: 700,
      processed: 1,
      skipped: 699,
      failed: 0,
    });
    expect(await filesOf({ repo: "skip", branch: "master" })).toHaveLength(700);
    const [alive] = await query("skip", "SELECT count(*) AS n FROM datums WHERE died IS NULL");
    expect(alive).toEqual({ n: 700 });
  });

  it("sees an input that was deleted, or made anew, meanwhile", async () => {
    await makeRepo("gone-in");
    const pipeline = await makePipeline({ name: "gone", globs: { "gone-in": "/*" } });
    await commit("gone-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.stop();
    await master("gone-in").lifecycle.destroy();
    await pipeline.lifecycle.start();
    await workUntil(pipeline, { jobs: 2 });
    expect((await allJobs(pipeline))[1]).toMatchObject({ state: "success", datums: { total: 0 } });
    expect(await filesOf({ repo: "gone", branch: "master" })).toEqual([]);
    await pipeline.lifecycle.stop();
    await makeRepo("gone-in");
    await commit("gone-in", { b: "1" });
    await pipeline.lifecycle.start();
    await workUntil(pipeline, { jobs: 3 });
    expect(await filesOf({ repo: "gone", branch: "master" })).toEqual(["b.out"]);
  });

  it("waits for its first data as before, where it had none", async () => {
    await makeRepo("two-a", "two-b");
    const pipeline = await makePipeline({ name: "two", globs: { "two-a": "/*", "two-b": "/*" } });
    await commit("two-a", { a: "1" });
    await pipeline.lifecycle.stop();
    await pipeline.lifecycle.start();
    expect(await allJobs(pipeline)).toEqual([]);
    await commit("two-b", { b: "1" });
    const ran = await workUntil(pipeline, { jobs: 1 });
    expect(ran.map(({ paths }) => paths)).toEqual([["a", "b"]]);
  });

  it("can be stopped twice and started twice, and deleted", async () => {
    await makeRepo("idem-in");
    const pipeline = await makePipeline({ name: "idem", globs: { "idem-in": "/*" } });
    const stops = await Promise.all([pipeline.lifecycle.stop(), pipeline.lifecycle.stop()]);
    expect(stops.map(({ ok }) => ok)).toEqual([true, true]);
    const starts = await Promise.all([pipeline.lifecycle.start(), pipeline.lifecycle.start()]);
    expect(starts.map(({ ok }) => ok)).toEqual([true, true]);
    await pipeline.lifecycle.stop();
    expect(await pipeline.lifecycle.destroy({ keepOutput: false })).toEqual({ ok: true });
    expect(await pipeline.lifecycle.start()).toEqual({ ok: false, reason: "no-such-pipeline" });
    expect(await pipelineOf("never").lifecycle.stop()).toEqual({ ok: false, reason: "no-such-pipeline" });
  });

  it("wakes who waits for a datum, and who waits for a job", async () => {
    await makeRepo("hush-in");
    const pipeline = await makePipeline({ name: "hush", globs: { "hush-in": "/*" }, workers: 2 });
    await commit("hush-in", { a: "1" });
    const { datums } = await leaseSome(pipeline, { worker: "w1" });
    expect(datums.map(pathsOf)).toEqual([["a"]]);
    const idle = pipeline.leases.take({ node: "n", worker: "w2", max: 1, waitMs: 20_000 });
    const ended = pipeline.jobs.wait({ id: datums[0]?.job ?? "", waitMs: 20_000 });
    await pipeline.lifecycle.stop();
    expect(await idle).toMatchObject({ ok: true, slot: false });
    expect(await ended).toMatchObject({ state: "killed" });
  });
});
