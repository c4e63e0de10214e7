import { env } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { good } from "../api/support.ts";
import {
  allJobs,
  commit,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  OUTPUTS,
  pathsOf,
  pipelineOf,
  query,
  type SpecOptions,
  specOf,
  workUntil,
} from "./support.ts";

const NEW_COMMAND: SpecOptions["more"] = { transform: { image: "none", cmd: ["false"] } };

/** A group of a plan, as it is answered. */
interface PlannedGroup {
  readonly why: {
    readonly reason: string;
    readonly job?: string;
    readonly state?: string;
    readonly fields?: string[];
  };
  readonly count: number;
  readonly first: readonly { readonly inputs: readonly { readonly path: string }[] }[];
}

async function update(
  options: SpecOptions,
  reprocess = false,
): Promise<ReturnType<PipelineApi["specification"]["update"]>> {
  return await pipelineOf(options.name).specification.update({ spec: specOf(options), reprocess });
}

function states(jobs: Awaited<ReturnType<typeof allJobs>>): string[] {
  return jobs.map(({ state }) => state);
}

describe("an update", () => {
  it("of what runs makes one job, in which every datum runs again", async () => {
    await makeRepo("cmd-in");
    const options = { name: "cmd", globs: { "cmd-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("cmd-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: (datum) => ({ [`old-${pathsOf(datum)[0]}`]: "x" }) });
    const updated = await update({ ...options, more: NEW_COMMAND });
    expect(updated).toMatchObject({
      ok: true,
      pipeline: { state: "active", version: 2, spec: { transform: { cmd: ["false"] } } },
    });
    const leased = await leaseSome(pipeline, { max: 1 });
    expect(leased.transform.cmd).toEqual(["false"]);
    const lease = leased.datums[0]?.lease ?? "";
    await pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, state: "returned" }] });
    const ran = await workUntil(pipeline, {
      jobs: 2,
      command: (datum) => ({ [`new-${pathsOf(datum)[0]}`]: "x" }),
    });
    expect(ran).toHaveLength(2);
    const jobs = await allJobs(pipeline);
    expect(states(jobs)).toEqual(["success", "success"]);
    expect(jobs[1]?.datums).toEqual({ total: 2, processed: 2, skipped: 0, failed: 0 });
    expect(await filesOf({ repo: "cmd", branch: "master" })).toEqual(["new-a", "new-b"]);
    await commit("cmd-in", { c: "1" });
    expect(await workUntil(pipeline, { jobs: 3 })).toHaveLength(1);
  });

  it("lets a path go from one datum to another when the command changes", async () => {
    await makeRepo("swap-in");
    const options = { name: "swap", globs: { "swap-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("swap-in", { a: "1", b: "1" });
    const other: Record<string, string> = { a: "b", b: "a" };
    await workUntil(pipeline, { jobs: 1, command: (datum) => ({ [pathsOf(datum)[0] ?? ""]: "old" }) });
    await update({ ...options, more: NEW_COMMAND });
    await workUntil(pipeline, {
      jobs: 2,
      command: (datum) => ({ [other[pathsOf(datum)[0] ?? ""] ?? ""]: "new" }),
    });
    expect(states(await allJobs(pipeline))).toEqual(["success", "success"]);
    expect(await filesOf({ repo: "swap", branch: "master" })).toEqual(["a", "b"]);
    await commit("swap-in", { a: null });
    await workUntil(pipeline, { jobs: 3 });
    expect(await filesOf({ repo: "swap", branch: "master" })).toEqual(["a"]);
  });

  it("of workers, tries or times makes one job that skips all, and lets running jobs go on", async () => {
    await makeRepo("calm-in");
    const options = { name: "calm", globs: { "calm-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("calm-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("calm-in", { b: "1" });
    const { datums } = await leaseSome(pipeline);
    const more = { datumTries: 1, jobTimeout: "1h", datumTimeout: "30s" };
    expect(await update({ ...options, workers: 5, more })).toMatchObject({
      ok: true,
      pipeline: { version: 2 },
    });
    const leases = datums.map(({ lease }) => lease);
    expect(await pipeline.leases.renew({ worker: "w1", leases })).toMatchObject({ lost: [] });
    const outcomes = leases.map((lease) => ({
      ...{
        lease,
        state: "success" as const,
        exitCode: 0,
        outputs: [],
        millis: 1,
        ran: { executor: "process", image: null },
      },
    }));
    await pipeline.leases.finish({ worker: "w1", outcomes });
    expect(await workUntil(pipeline, { jobs: 3 })).toEqual([]);
    const jobs = await allJobs(pipeline);
    expect(states(jobs)).toEqual(["success", "success", "success"]);
    expect(jobs[2]?.datums).toEqual({ total: 2, processed: 0, skipped: 2, failed: 0 });
    const row = (await openCatalogue(env.DB).pipelines.list()).find(({ name }) => name === "calm");
    expect(row?.parallelism).toEqual({ strategy: "CONSTANT", constant: 5 });
  });

  it("of the description alone is a version that makes no job and runs nothing, also once a commit comes", async () => {
    await makeRepo("said-in");
    const options = { name: "said", globs: { "said-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("said-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("said-in", { b: "1" });
    const { datums } = await leaseSome(pipeline);
    const leases = datums.map(({ lease }) => lease);
    const more = { description: "finds edges" };
    expect(await update({ ...options, more })).toMatchObject({
      ok: true,
      pipeline: { version: 2, spec: { description: "finds edges" } },
    });
    expect(await pipeline.leases.renew({ worker: "w1", leases })).toMatchObject({ lost: [] });
    const outcomes = leases.map((lease) => ({
      ...{
        lease,
        state: "success" as const,
        exitCode: 0,
        outputs: [],
        millis: 1,
        ran: { executor: "process", image: null },
      },
    }));
    await pipeline.leases.finish({ worker: "w1", outcomes });
    await commit("said-in", { c: "1" });
    expect(await workUntil(pipeline, { jobs: 3 })).toHaveLength(1);
    const counts = (await allJobs(pipeline)).map((job) => job.datums.processed);
    expect(counts).toEqual([1, 1, 1]);
    const row = (await openCatalogue(env.DB).pipelines.list()).find(({ name }) => name === "said");
    expect(row?.description).toBe("finds edges");
  });

  it("is foreseen as it then happens: what would run, what is kept, and what changes", async () => {
    await makeRepo("plan-in");
    const options = { name: "plan", globs: { "plan-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("plan-in", { a: "1", b: "1", "d/x": "1", "d/y": "1" });
    await workUntil(pipeline, { jobs: 1 });
    const planned = async (other: SpecOptions, query = ""): Promise<unknown> => {
      const target = `POST /pipelines?dryRun=true&update=true${query}`;
      return (await good(target, { body: specOf(other) })).plan;
    };
    const counted = true;
    const group = (reason: object, count: number, ...paths: string[]) => ({
      ...{ why: reason, count },
      first: paths.map((path) => ({ inputs: [{ name: "plan-in", path }] })),
    });
    const all = ["/a", "/b", "/d"];
    expect(await planned(options)).toEqual({ changes: [], run: 0, kept: 3, counted, why: [] });
    const described = { ...options, more: { description: "said" } };
    expect(await planned(described)).toEqual({
      ...{ changes: ["description"], run: 0, kept: 3, counted, why: [] },
    });
    const image = ["transform.image"];
    expect(await planned({ ...options, more: { transform: { image: "other", cmd: ["true"] } } })).toEqual({
      ...{ changes: image, run: 3, kept: 0, counted },
      why: [group({ reason: "version", fields: image }, 3, ...all)],
    });
    expect(await planned(options, "&reprocess=true")).toEqual({
      ...{ changes: [], run: 3, kept: 0, counted, why: [group({ reason: "reprocess" }, 3, ...all)] },
    });
    const fewer = { ...options, globs: { "plan-in": "/[ad]" } };
    const changes = ["inputs.plan-in.glob"];
    expect(await planned(fewer)).toEqual({ changes, run: 0, kept: 2, counted, why: [] });
    // A directory that holds something else by now is another datum, and so is a file that was not matched before.
    await commit("plan-in", { "d/y": "2" });
    await workUntil(pipeline, { jobs: 2, command: () => ({}) });
    const more = { ...options, globs: { "plan-in": "/**" } };
    expect(await planned(more)).toEqual({
      ...{ changes, run: 2, kept: 3, counted },
      why: [group({ reason: "inputs", fields: changes }, 2, "/d/x", "/d/y")],
    });
    expect(await allJobs(pipeline)).toHaveLength(2);
    await update(more);
    expect(await workUntil(pipeline, { jobs: 3, command: () => ({}) })).toHaveLength(2);
    expect((await allJobs(pipeline))[2]?.datums).toMatchObject({ processed: 2, skipped: 3 });
  });

  it("is foreseen with the reason of each datum that would run, the same that its job has then", async () => {
    await makeRepo("why-in");
    const options = { name: "why", globs: { "why-in": "/*" }, more: { datumTries: 1 } };
    const pipeline = await makePipeline(options);
    const why = async (other: SpecOptions): Promise<[string, number, string][]> => {
      const { plan } = await good("POST /pipelines?dryRun=true&update=true", { body: specOf(other) });
      return plan.why.map(({ why: { reason, job, state, fields }, count, first }: PlannedGroup) => [
        [reason, state, fields?.join(), job].filter(Boolean).join(" "),
        count,
        first.map(({ inputs }) => inputs.map(({ path }) => path).join()).join(" "),
      ]);
    };
    await commit("why-in", { a: "1", b: "1", bad: "1", c: "1", d: "1" });
    await workUntil(pipeline, {
      jobs: 1,
      command: (datum) => (pathsOf(datum)[0] === "bad" ? "fail" : {}),
    });
    const [failed] = await allJobs(pipeline);
    expect(failed?.state).toBe("failure");
    expect(await why(options)).toEqual([[`again failed ${failed?.id}`, 1, "/bad"]]);
    // While the pipeline rests, no job sees what is written.
    await pipeline.lifecycle.stop();
    await commit("why-in", { b: "2", e: "1", d: null });
    const resting = [
      ["changed", 1, "/b"],
      [`again failed ${failed?.id}`, 1, "/bad"],
      ["new", 1, "/e"],
    ];
    expect(await why(options)).toEqual(resting);
    // What would run in any case does not run because of the command.
    expect(await why({ ...options, more: { ...options.more, ...NEW_COMMAND } })).toEqual([
      ["version transform.cmd", 2, "/a /c"],
      ...resting,
    ]);
    await pipeline.lifecycle.start();
    const leased = await leaseSome(pipeline, { max: 1 });
    expect(leased.datums).toHaveLength(1);
    const [, running] = await allJobs(pipeline);
    expect(await why(options)).toEqual([[`unfinished ${running?.id}`, 3, "/b /bad /e"]]);
    await makeRepo("why-other");
    await commit("why-other", { a: "1" });
    const elsewhere = { ...options, globs: { "why-other": "/*" } };
    expect(await why(elsewhere)).toEqual([["inputs inputs.why-in,inputs.why-other", 1, "/a"]]);
  });

  it("that changes nothing is none", async () => {
    await makeRepo("same-in");
    const options = { name: "same", globs: { "same-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("same-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const transform = { image: "none", cmd: ["true"], env: {}, stdin: [], acceptReturnCode: [0] };
    expect(await update({ ...options, more: { transform } })).toMatchObject({ pipeline: { version: 1 } });
    expect(await allJobs(pipeline)).toHaveLength(1);
  });

  it("that asks for it runs every datum again though nothing changes", async () => {
    await makeRepo("anew-in");
    const options = { name: "anew", globs: { "anew-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("anew-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1 });
    expect(await update(options, true)).toMatchObject({ pipeline: { version: 2 } });
    expect(await workUntil(pipeline, { jobs: 2 })).toHaveLength(2);
    await expect.poll(() => query("anew", "SELECT DISTINCT salt FROM results")).toEqual([{ salt: "2" }]);
    expect(await query("anew", `SELECT count(*) AS n FROM (${OUTPUTS})`)).toEqual([{ n: 2 }]);
  });

  it("ends the jobs of the version before; their commits are in the one job that it makes", async () => {
    await makeRepo("mid-in");
    const options = { name: "mid", globs: { "mid-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("mid-in", { a: "1" });
    await commit("mid-in", { b: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(2);
    const { datums } = await leaseSome(pipeline, { max: 1 });
    await update({ ...options, more: NEW_COMMAND });
    const leases = datums.map(({ lease }) => lease);
    expect((await pipeline.leases.renew({ worker: "w1", leases })).lost).toEqual(leases);
    await workUntil(pipeline, { jobs: 3 });
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ state, reason }) => [state, reason])).toEqual([
      ["killed", "the pipeline was updated"],
      ["killed", "the pipeline was updated"],
      ["success", null],
    ]);
    expect(jobs[2]?.datums.total).toBe(2);
  });

  it("of the glob keeps the results of datums that are still there", async () => {
    await makeRepo("glob-in");
    const options = { name: "glob", globs: { "glob-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("glob-in", { a1: "1", a2: "1", b1: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await update({ ...options, globs: { "glob-in": "/a*" } });
    expect(await workUntil(pipeline, { jobs: 2 })).toEqual([]);
    expect((await allJobs(pipeline))[1]?.datums).toEqual({ total: 2, processed: 0, skipped: 2, failed: 0 });
    expect(await filesOf({ repo: "glob", branch: "master" })).toEqual(["a1.out", "a2.out"]);
  });

  it("of the inputs follows the new ones and lets go of the old ones", async () => {
    await makeRepo("in-a", "in-b", "in-c");
    const options = { name: "ins", globs: { "in-a": "/*", "in-b": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("in-a", { a: "1" });
    await commit("in-b", { b: "1" });
    await commit("in-c", { c: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const before = await allJobs(pipeline);
    await update({ ...options, globs: { "in-b": "/*", "in-c": "/*" } });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths)).toEqual([["b", "c"]]);
    const jobs = await allJobs(pipeline);
    expect(jobs[0]).toEqual(before[0]);
    expect(jobs[1]?.inputs.map(({ name }) => name)).toEqual(["in-b", "in-c"]);
    expect(await filesOf({ repo: "ins", branch: "master" })).toEqual(["b+c.out"]);
    await commit("in-a", { a: "2" });
    await commit("in-c", { c: "2" });
    expect((await workUntil(pipeline, { jobs: 3 })).map(({ paths }) => paths)).toEqual([["b", "c"]]);
    expect(await allJobs(pipeline)).toHaveLength(3);
  });

  it("by an input without data waits for it, with one job then", async () => {
    await makeRepo("full", "bare");
    const options = { name: "later", globs: { full: "/*" } };
    const pipeline = await makePipeline(options);
    await commit("full", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await update({ ...options, globs: { full: "/*", bare: "/*" } });
    await commit("full", { b: "1" });
    expect(await allJobs(pipeline)).toHaveLength(1);
    await commit("bare", { x: "1" });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths.join("+")).sort()).toEqual(["x+a", "x+b"]);
    expect(await allJobs(pipeline)).toHaveLength(2);
    expect(await filesOf({ repo: "later", branch: "master" })).toEqual(["x+a.out", "x+b.out"]);
  });

  it("of a stopped pipeline leaves it stopped, and its start makes the job", async () => {
    await makeRepo("rest-in");
    const options = { name: "rest", globs: { "rest-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("rest-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.stop();
    const updated = await update({ ...options, more: NEW_COMMAND });
    expect(updated).toMatchObject({ ok: true, pipeline: { state: "stopped", version: 2 } });
    expect(await allJobs(pipeline)).toHaveLength(1);
    await pipeline.lifecycle.start();
    expect(await workUntil(pipeline, { jobs: 2 })).toHaveLength(1);
  });

  it("can't change the output branch, and there must be something to update", async () => {
    await makeRepo("out-in");
    const options = { name: "outs", globs: { "out-in": "/*" } };
    await makePipeline(options);
    expect(await update({ ...options, more: { outputBranch: "other" } })).toEqual({
      ok: false,
      reason: "other-output",
    });
    expect(await update({ name: "nobody", globs: {} })).toEqual({ ok: false, reason: "no-such-pipeline" });
  });

  it("goes through any number of versions, each with its one job", async () => {
    await makeRepo("many-in");
    const options = { name: "many", globs: { "many-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("many-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    for (let version = 2; version <= 5; version++) {
      const more = { transform: { image: "none", cmd: [`v${version}`] } };
      expect(await update({ ...options, more })).toMatchObject({ pipeline: { version } });
      expect(await workUntil(pipeline, { jobs: version })).toHaveLength(1);
    }
    expect(states(await allJobs(pipeline))).toEqual(Array(5).fill("success"));
  });
});
