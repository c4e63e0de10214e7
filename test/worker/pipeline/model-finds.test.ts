import { describe, expect, it, vi } from "vitest";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import {
  allJobs,
  commit,
  filesOf,
  makePipeline,
  makeRepo,
  pipelineOf,
  specOf,
  workUntil,
} from "./support.ts";

describe("what the model found", () => {
  it("a job that is stopped before its datums are known, and its pipeline with it, leaves nothing out", async () => {
    await makeRepo("early-in");
    await commit("early-in", { a: "1" });
    const fill = vi.spyOn(JobStore.prototype, "nextToFill").mockReturnValue(undefined);
    const pipeline = await makePipeline({ name: "early", globs: { "early-in": "/*" } });
    const [job] = await allJobs(pipeline);
    await pipeline.jobs.stop(job?.id ?? "");
    await pipeline.lifecycle.stop();
    fill.mockRestore();
    await pipeline.lifecycle.start();
    await commit("early-in", { b: "1" });
    await workUntil(pipeline, { jobs: 3 });
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ state, datums }) => [state, datums.total])).toEqual([
      ["killed", 0],
      ["success", 1],
      ["success", 2],
    ]);
    expect(await filesOf({ repo: "early", branch: "master" })).toEqual(["a.out", "b.out"]);
  });

  it("new inputs of which an old one is empty by now have no job until it is filled", async () => {
    await makeRepo("empty-in", "other-in");
    await makePipeline({ name: "emptied", globs: { "empty-in": "/*" } });
    await commit("empty-in", { a: "1" });
    await commit("empty-in", { a: null });
    await commit("other-in", { x: "1" });
    await workUntil(pipelineOf("emptied"), { jobs: 2 });
    const spec = specOf({ name: "emptied", globs: { "empty-in": "/*", "other-in": "/*" } });
    expect((await pipelineOf("emptied").specification.update({ spec, reprocess: false })).ok).toBe(true);
    await commit("other-in", { y: "1" });
    await commit("empty-in", { b: "1" });
    const ran = await workUntil(pipelineOf("emptied"), { jobs: 3 });
    expect(ran.map(({ paths }) => paths.join("+"))).toEqual(["b+x", "b+y"]);
    expect(await allJobs(pipelineOf("emptied"))).toHaveLength(3);
  });
});
