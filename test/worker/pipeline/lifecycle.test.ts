import { env } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { Refusals } from "../../../worker/pipeline/context.ts";
import {
  allJobs,
  branchOf,
  commit,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  pipelineOf,
  query,
  specOf,
  workUntil,
} from "./support.ts";

const catalogue = openCatalogue(env.DB);

async function rowOf(name: string) {
  return (await catalogue.pipelines.list()).find((row) => row.name === name);
}

describe("creating a pipeline", () => {
  it("makes its output branch, its catalogue row and its marker before it answers", async () => {
    await makeRepo("new-in");
    const spec = specOf({ name: "new", globs: { "new-in": "/*" } });
    const made = await pipelineOf("new").lifecycle.create(spec);
    expect(made).toMatchObject({
      ok: true,
      pipeline: { name: "new", state: "active", outputRepo: "new", outputBranch: "master", spec },
    });
    expect(await master("new").lifecycle.status()).toMatchObject({ ok: true, claimedBy: "new" });
    expect(await rowOf("new")).toMatchObject({
      state: "active",
      inputs: [{ repo: "new-in", branch: "master" }],
      output: { repo: "new", branch: "master" },
    });
    expect(await env.BLOBS.head("m/pipelines/new")).not.toBeNull();
    expect(await pipelineOf("new").lifecycle.inspect()).toMatchObject({
      ok: true,
      pipeline: { state: "active" },
    });
    expect(await pipelineOf("new").leases.output()).toEqual({ repo: "new", branch: "master" });
  });

  it("refuses a second one of the name", async () => {
    await makePipeline({ name: "dup", globs: { "dup-in": "/*" } });
    expect(await pipelineOf("dup").lifecycle.create(specOf({ name: "dup", globs: { other: "/" } }))).toEqual({
      ok: false,
      reason: "already-exists",
    });
  });

  it("refuses an output branch that is there already, and leaves nothing behind", async () => {
    await makeRepo("taken");
    const spec = specOf({ name: "taken", globs: { "taken-in": "/*" } });
    expect(await pipelineOf("taken").lifecycle.create(spec)).toEqual({ ok: false, reason: "output-exists" });
    expect(await pipelineOf("taken").lifecycle.inspect()).toEqual({ ok: false, reason: "no-such-pipeline" });
    expect(await rowOf("taken")).toBeUndefined();
    expect(await env.BLOBS.head("m/pipelines/taken")).toBeNull();
    expect((await master("taken").lifecycle.destroy()).ok).toBe(true);
    expect((await pipelineOf("taken").lifecycle.create(spec)).ok).toBe(true);
  });

  it("accepts a specification without inputs, which makes no jobs", async () => {
    const pipeline = await makePipeline({ name: "lonely", globs: {} });
    expect(await allJobs(pipeline)).toEqual([]);
    expect(await pipeline.leases.take({ node: "n", worker: "w", max: 1, waitMs: 0 })).toMatchObject({
      ok: true,
      datums: [],
    });
  });
});

describe("deleting a pipeline", () => {
  it("takes its output, its subscription, its leases and its rows away", async () => {
    await makeRepo("bye-in");
    const pipeline = await makePipeline({ name: "bye", globs: { "bye-in": "/*" } });
    await commit("bye-in", { a: "1", b: "1" });
    const { datums } = await leaseSome(pipeline);
    expect(await pipeline.lifecycle.destroy({ keepOutput: false })).toEqual({ ok: true });

    expect(await pipeline.lifecycle.inspect()).toEqual({ ok: false, reason: "no-such-pipeline" });
    expect(await rowOf("bye")).toBeUndefined();
    expect(await master("bye").lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await env.BLOBS.head("m/pipelines/bye")).toBeNull();
    const lease = datums[0]?.lease ?? "";
    expect(await pipeline.leases.take({ node: "n", worker: "w", max: 1, waitMs: 0 })).toMatchObject({
      ok: false,
    });
    expect(await pipeline.leases.renew({ worker: "w1", leases: [lease] })).toEqual({ lost: [lease] });
    await commit("bye-in", { c: "1" });
    for (const table of ["jobs", "elements", "datums", "attempts", "results", "sources", "slots"]) {
      await expect.poll(() => query("bye", `SELECT count(*) AS count FROM ${table}`)).toEqual([{ count: 0 }]);
    }
    expect(await pipeline.lifecycle.destroy({ keepOutput: false })).toEqual({
      ok: false,
      reason: "no-such-pipeline",
    });
  });

  it("keeps the output branch where that is asked for, free for others to write", async () => {
    await makeRepo("stay-in");
    const pipeline = await makePipeline({ name: "stay", globs: { "stay-in": "/*" } });
    await commit("stay-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.destroy({ keepOutput: true });
    expect(await filesOf({ repo: "stay", branch: "master" })).toEqual(["a.out"]);
    await commit("stay", { mine: "1" });
    expect(await filesOf({ repo: "stay", branch: "master" })).toEqual(["a.out", "mine"]);
  });

  it("wakes those who wait, and ends its jobs in the catalogue if its output is kept", async () => {
    await makeRepo("wake-in");
    const pipeline = await makePipeline({ name: "wake", globs: { "wake-in": "/*" }, workers: 2 });
    await commit("wake-in", { a: "1" });
    await leaseSome(pipeline, { worker: "w1" });
    const [job] = await allJobs(pipeline);
    const id = job?.id ?? "";
    const ended = pipeline.jobs.wait({ id, waitMs: 20_000 });
    const waiting = pipeline.leases.take({ node: "n", worker: "w2", max: 1, waitMs: 20_000 });
    await pipeline.lifecycle.destroy({ keepOutput: true });
    expect(await waiting).toEqual({ ok: false, reason: "no-such-pipeline" });
    await ended;
    const [row] = await catalogue.jobs.list({ pipeline: "wake", limit: 1 });
    expect(row).toMatchObject({ id, state: "killed", reason: "the pipeline was deleted" });
  });

  it("lets a new one of the name start from nothing; bells for the old one are ignored", async () => {
    await makeRepo("re-in");
    const first = await makePipeline({ name: "re", globs: { "re-in": "/*" } });
    await commit("re-in", { a: "1" });
    await workUntil(first, { jobs: 1 });
    const before = await rowOf("re");
    await first.lifecycle.destroy({ keepOutput: false });
    const second = await makePipeline({ name: "re", globs: { "re-in": "/*" } });
    expect((await rowOf("re"))?.uid).not.toBe(before?.uid);
    await second.wakeUps.ring({ uid: before?.uid ?? "" });
    const ran = await workUntil(second, { jobs: 1 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["a"]);
    expect(await allJobs(second)).toHaveLength(1);
    expect(await filesOf({ repo: "re", branch: "master" })).toEqual(["a.out"]);
  });
});

describe("what is told of jobs", () => {
  it("reaches the catalogue, ended jobs with their counts", async () => {
    await makeRepo("cat-in");
    const pipeline = await makePipeline({ name: "cat", globs: { "cat-in": "/*" } });
    await commit("cat-in", { a: "1" });
    await commit("cat-in", { b: "1" });
    await workUntil(pipeline, { jobs: 2 });
    const own = await allJobs(pipeline);
    await vi.waitFor(async () => {
      const listed = await catalogue.jobs.list({ pipeline: "cat", limit: 10 });
      expect(listed.toReversed()).toEqual(own);
    }, 45_000);
    expect(await catalogue.jobs.pipelineOf(own[0]?.id ?? "")).toBe("cat");
  });

  it("says why a job waits: no runner, or a job before it", async () => {
    await makeRepo("why-in");
    const pipeline = await makePipeline({ name: "why", globs: { "why-in": "/*" } });
    await commit("why-in", { a: "1" });
    await commit("why-in", { b: "1" });
    await vi.waitFor(async () => {
      const [first, second] = await allJobs(pipeline);
      expect(first?.reason).toBe("no live runner: start one with `sluice runner`");
      expect(second?.reason).toBe(`behind job ${first?.id}`);
    }, 45_000);
  });

  it("comes in pages, newest first", async () => {
    await makeRepo("page-in");
    const pipeline = await makePipeline({ name: "page", globs: { "page-in": "/*" } });
    for (let index = 0; index < 5; index++) await commit("page-in", { [`f${index}`]: "1" });
    await workUntil(pipeline, { jobs: 5 });
    const ids = (await allJobs(pipeline)).map(({ id }) => id).reverse();
    const first = await pipeline.jobs.list({ limit: 2 });
    expect(first.jobs.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    const rest = await pipeline.jobs.list({ after: first.next ?? "", limit: 3 });
    expect(rest).toMatchObject({ next: null });
    expect(rest.jobs.map(({ id }) => id)).toEqual(ids.slice(2));
    expect(await pipeline.jobs.view(ids[0] ?? "")).toMatchObject({ id: ids[0], state: "success" });
    expect(await pipeline.jobs.view("none")).toBeNull();
  });

  it("wakes who waits for a job when it has ended", async () => {
    await makeRepo("end-in");
    const pipeline = await makePipeline({ name: "end", globs: { "end-in": "/*" } });
    await commit("end-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    const [job] = await allJobs(pipeline);
    const waiting = pipeline.jobs.wait({ id: job?.id ?? "", waitMs: 20_000 });
    const lease = datums[0]?.lease ?? "";
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
    expect(await waiting).toMatchObject({ state: "success" });
    expect(await pipeline.jobs.wait({ id: "none", waitMs: 0 })).toBeNull();
  });
});

describe("why a creation was refused", () => {
  it("is known of the last ones alone, so that an object whose name is asked for again and again does not grow", () => {
    const refusals = new Refusals();
    const refusal = { ok: false, reason: "output-exists" } as const;
    for (let n = 0; n < 1000; n++) refusals.add(`uid-${n}`, refusal);
    expect(refusals.of("uid-999")).toEqual(refusal);
    expect(refusals.of("uid-0")).toBeUndefined();
    expect(Array.from({ length: 1000 }, (_, n) => refusals.of(`uid-${n}`)).filter(Boolean)).toHaveLength(100);
  });
});

describe("the output branch", () => {
  it("belongs to the pipeline's jobs alone", async () => {
    const pipeline = await makePipeline({ name: "own", globs: { "own-in": "/*" } });
    expect(await pipeline.leases.output()).toEqual({ repo: "own", branch: "master" });
    expect((await branchOf({ repo: "own", branch: "master" }).lifecycle.destroy()).ok).toBe(false);
  });
});
