import { describe, expect, it } from "vitest";
import type { JobDatum } from "../../../protocol/pipelines.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import {
  allJobs,
  commit,
  leaseSome,
  makePipeline,
  makeRepo,
  pathsOf,
  workOnce,
  workUntil,
} from "./support.ts";

async function datumsOf(pipeline: PipelineApi, job: string, limit = 100): Promise<JobDatum[]> {
  const found: JobDatum[] = [];
  for (let after: string | null = null; ; ) {
    const page = await pipeline.datums({ job, limit, ...(after !== null && { after }) });
    if (!page.ok) throw new Error(page.reason);
    found.push(...page.datums);
    after = page.next;
    if (after === null) return found;
  }
}

describe("the datums of a job", () => {
  it("are what it ran, with how that ended and where, and what it skipped", async () => {
    await makeRepo("list-in");
    const pipeline = await makePipeline({ name: "list", globs: { "list-in": "/*" } });
    await commit("list-in", { old: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const head = await commit("list-in", { bad: "1", good: "1" });
    await workUntil(pipeline, {
      jobs: 2,
      command: (datum) => (pathsOf(datum)[0] === "bad" ? "fail" : { x: "y" }),
    });
    const job = (await allJobs(pipeline))[1]?.id ?? "";
    const datums = await datumsOf(pipeline, job);
    const byPath = new Map(datums.map((datum) => [datum.inputs[0]?.path, datum]));
    expect([...byPath.keys()].sort()).toEqual(["bad", "good", "old"]);
    const inputs = (path: string) => [{ name: "list-in", path, commit: head }];
    expect(byPath.get("bad")).toMatchObject({
      state: "failed",
      tries: 3,
      exitCode: 3,
      reason: "the command failed",
      node: "n1",
      inputs: inputs("bad"),
    });
    expect(byPath.get("good")).toMatchObject({ state: "success", exitCode: 0, reason: null, node: "n1" });
    expect(byPath.get("old")).toMatchObject({ state: "skipped", node: null, inputs: inputs("old") });
  });

  it("come in pages, each datum once, also where a datum is the root", async () => {
    await makeRepo("page-in", "root-in");
    const pipeline = await makePipeline({ name: "page", globs: { "page-in": "/*" } });
    await commit("page-in", Object.fromEntries(Array.from({ length: 7 }, (_, n) => [`old${n}`, "1"])));
    await workUntil(pipeline, { jobs: 1 });
    await commit("page-in", Object.fromEntries(Array.from({ length: 4 }, (_, n) => [`new${n}`, "1"])));
    await workUntil(pipeline, { jobs: 2 });
    const id = (await allJobs(pipeline))[1]?.id ?? "";
    const datums = await datumsOf(pipeline, id, 3);
    expect(new Set(datums.map((datum) => datum.id)).size).toBe(11);
    expect(datums).toHaveLength(11);
    const root = await makePipeline({ name: "root", globs: { "root-in": "/" } });
    await commit("root-in", { a: "1" });
    await workUntil(root, { jobs: 1 });
    const [first] = await allJobs(root);
    expect(await datumsOf(root, first?.id ?? "")).toMatchObject([{ inputs: [{ path: "" }] }]);
    expect(await pipeline.datums({ job: id, after: "nonsense", limit: 1 })).toEqual({
      ok: false,
      reason: "no-such-place",
    });
    expect(await pipeline.datums({ job: "none", limit: 1 })).toEqual({ ok: false, reason: "no-such-job" });
  });

  it("are told of while they run, wait, are tried again, and after their job was stopped", async () => {
    await makeRepo("live-in");
    const pipeline = await makePipeline({ name: "live", globs: { "live-in": "/*" } });
    await commit("live-in", { a: "1", b: "1" });
    await expect
      .poll(async () => (await workOnce(pipeline, { max: 1, command: () => "fail" })).length)
      .toBe(1);
    const { datums } = await leaseSome(pipeline, { max: 1 });
    const job = datums[0]?.job ?? "";
    const states = async () => (await datumsOf(pipeline, job)).map(({ state }) => state).sort();
    expect(await states()).toEqual(["queued", "running"]);
    const tried = (await datumsOf(pipeline, job)).find(({ tries }) => tries === 1);
    expect(tried).toMatchObject({ exitCode: 3, reason: "the command failed" });
    await pipeline.stopJob(job);
    expect(await states()).toEqual(["killed", "killed"]);
  });
});
