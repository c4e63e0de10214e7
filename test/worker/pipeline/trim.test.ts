import { describe, expect, it } from "vitest";
import { KEPT_JOBS } from "../../../worker/pipeline/jobs/job-store.ts";
import { REST } from "../../support/suite.ts";
import {
  allJobs,
  commit,
  filesOf,
  makePipeline,
  makeRepo,
  pathsOf,
  pipelineOf,
  query,
  specOf,
  workUntil,
} from "./support.ts";

function count(name: string, table: string): Promise<{ n: number }[]> {
  return query(name, `SELECT count(*) AS n FROM ${table}`);
}

describe("what nobody reads any more", () => {
  it("goes: rows grow with what is alive, not with how often it was replaced", REST, async () => {
    await makeRepo("churn-in");
    const pipeline = await makePipeline({ name: "churn", globs: { "churn-in": "/*" } });
    for (let time = 0; time < 20; time++) await commit("churn-in", { a: `${time}`, b: "same" });
    await workUntil(pipeline, { jobs: 20 });
    await expect.poll(() => count("churn", "elements")).toEqual([{ n: 2 }]);
    await expect.poll(() => count("churn", "datums")).toEqual([{ n: 2 }]);
    expect(await count("churn", "touched")).toEqual([{ n: 0 }]);
    expect(await filesOf({ repo: "churn", branch: "master" })).toEqual(["a.out", "b.out"]);
  });

  it("stays while jobs fail, so that the next output commit is still the whole difference", async () => {
    await makeRepo("fail-in");
    const pipeline = await makePipeline({ name: "fail", globs: { "fail-in": "/*" } });
    const command = (datum: Parameters<typeof pathsOf>[0]) => {
      const path = pathsOf(datum)[0] ?? "";
      return path === "evil" ? ("fail" as const) : { [path]: "x" };
    };
    await commit("fail-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command });
    await commit("fail-in", { evil: "1", a: null });
    await commit("fail-in", { b: null, c: "1" });
    await workUntil(pipeline, { jobs: 3, command });
    await commit("fail-in", { evil: null });
    await workUntil(pipeline, { jobs: 4, command });
    expect(await filesOf({ repo: "fail", branch: "master" })).toEqual(["c"]);
    await expect.poll(() => count("fail", "datums")).toEqual([{ n: 1 }]);
  });

  it("is what jobs ran that are long past; the newest ones keep it", async () => {
    await makeRepo("past-in");
    const pipeline = await makePipeline({ name: "past", globs: { "past-in": "/*" } });
    await commit("past-in", { a: "1" });
    await commit("past-in", { b: "1" });
    await workUntil(pipeline, { jobs: 2 });
    // As if many jobs had been between the first and the second.
    await query(
      "past",
      `UPDATE jobs SET n = n + ${KEPT_JOBS} WHERE n = 2;
       UPDATE attempts SET job = job + ${KEPT_JOBS} WHERE job = 2`,
    );
    await commit("past-in", { c: "1" });
    await workUntil(pipeline, { jobs: 3 });
    await expect
      .poll(() => query("past", "SELECT job FROM attempts ORDER BY job"))
      .toEqual([{ job: KEPT_JOBS + 2 }, { job: KEPT_JOBS + 3 }]);
    const [first, second] = await allJobs(pipeline);
    expect(await pipeline.datums.list({ job: second?.id ?? "", limit: 10 })).toMatchObject({
      datums: [{ state: "success" }],
    });
    expect(first).toMatchObject({ state: "success", datums: { total: 1, processed: 1 } });
  });

  it("is every result of another version, once its output is gone from the branch", async () => {
    await makeRepo("stale-in");
    const options = { name: "stale", globs: { "stale-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("stale-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipelineOf("stale").specification.update({ spec: specOf(options), reprocess: true });
    await workUntil(pipeline, { jobs: 2, command: () => "fail" });
    expect(await query("stale", "SELECT DISTINCT salt FROM results")).toEqual([{ salt: "1" }]);
    await commit("stale-in", { b: null });
    await workUntil(pipeline, { jobs: 3 });
    expect(await filesOf({ repo: "stale", branch: "master" })).toEqual(["a.out"]);
    await expect.poll(() => query("stale", "SELECT DISTINCT salt FROM results")).toEqual([{ salt: "2" }]);
  });
});
