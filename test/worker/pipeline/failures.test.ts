import { describe, expect, it } from "vitest";
import {
  allJobs,
  commit,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  pathsOf,
  workUntil,
} from "./support.ts";

describe("failed datums", () => {
  it("fail their job by name after three tries, and the next job repeats only them", async () => {
    await makeRepo("bad-in");
    const pipeline = await makePipeline({ name: "bad", globs: { "bad-in": "/*" } });
    await commit("bad-in", { good: "1", evil: "2" });
    const ran = await workUntil(pipeline, {
      jobs: 1,
      command: (datum) => (pathsOf(datum)[0] === "evil" ? "fail" : { good: "x" }),
    });
    expect(ran.filter(({ paths }) => paths[0] === "evil")).toHaveLength(3);
    const [first] = await allJobs(pipeline);
    expect(first).toMatchObject({
      state: "failure",
      outputCommit: null,
      datums: { total: 2, processed: 1, skipped: 0, failed: 1 },
      reason: "datum /evil failed after 3 tries: exit code 3: the command failed: two",
    });
    expect(await filesOf({ repo: "bad", branch: "master" })).toEqual([]);

    await commit("bad-in", { more: "3" });
    const again = await workUntil(pipeline, {
      jobs: 2,
      command: (datum) => ({ [pathsOf(datum).join()]: "y" }),
    });
    expect(again.map(({ paths }) => paths[0]).sort()).toEqual(["evil", "more"]);
    const [, second] = await allJobs(pipeline);
    expect(second).toMatchObject({
      state: "success",
      datums: { total: 3, processed: 2, skipped: 1, failed: 0 },
    });
    expect(await filesOf({ repo: "bad", branch: "master" })).toEqual(["evil", "good", "more"]);
  });

  it("are not repeated by a job that does not have them any more", async () => {
    await makeRepo("cured-in");
    const pipeline = await makePipeline({ name: "cured", globs: { "cured-in": "/*" } });
    await commit("cured-in", { evil: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => "fail" });
    await commit("cured-in", { evil: null });
    expect(await workUntil(pipeline, { jobs: 2 })).toEqual([]);
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["failure", "success"]);
  });

  it("fail each later job that still has them, with tries of its own", async () => {
    await makeRepo("stuck-in");
    const pipeline = await makePipeline({ name: "stuck", globs: { "stuck-in": "/*" } });
    await commit("stuck-in", { evil: "1" });
    await commit("stuck-in", { a: "1" });
    await commit("stuck-in", { b: "1" });
    const ran = await workUntil(pipeline, {
      jobs: 3,
      command: (datum) => (pathsOf(datum)[0] === "evil" ? "fail" : {}),
    });
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ state, datums }) => [state, datums.processed, datums.failed])).toEqual([
      ["failure", 0, 1],
      ["failure", 1, 1],
      ["failure", 1, 1],
    ]);
    expect(ran.filter(({ paths }) => paths[0] === "evil")).toHaveLength(9);
  });

  it.each([
    ["the command ended with exit code 4", "the command ended with exit code 4: gone"],
    ["gone wrong", "exit code 4: gone wrong: gone"],
  ])("say their exit code once, as their runner says it or beside it: %s", async (reason, told) => {
    const name = `code-${reason.length}`;
    await makeRepo(`${name}-in`);
    const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
    await commit(`${name}-in`, { a: "1" });
    const failed = {
      state: "failed",
      blame: "datum",
      exitCode: 4,
      reason,
      log: "gone\n",
      millis: 1,
    } as const;
    for (let tries = 0; tries < 3; tries++) {
      const { datums } = await leaseSome(pipeline);
      const outcomes = datums.map(({ lease }) => ({ ...failed, lease }));
      await pipeline.leases.finish({ worker: "w1", outcomes });
    }
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline))[0]?.reason).toBe(`datum /a failed after 3 tries: ${told}`);
  });

  it("name an output path that can't be stored", async () => {
    await makeRepo("dots-in");
    const pipeline = await makePipeline({ name: "dots", globs: { "dots-in": "/*" } });
    await commit("dots-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => ({ "a/../b": "x" }) });
    expect((await allJobs(pipeline))[0]?.reason).toContain("bad output path 'a/../b'");
  });
});

describe("outputs that are in each other's way", () => {
  it("name both datums where one wrote a file and the other a directory of that name", async () => {
    await makeRepo("kind-in");
    const pipeline = await makePipeline({ name: "kind", globs: { "kind-in": "/*" } });
    await commit("kind-in", { a: "1", b: "2" });
    await workUntil(pipeline, {
      jobs: 1,
      command: (datum) => (pathsOf(datum)[0] === "a" ? { out: "x" } : { "out/deep/file": "y" }),
    });
    const [job] = await allJobs(pipeline);
    expect(job?.state).toBe("failure");
    expect(job?.reason).toContain("datum /a");
    expect(job?.reason).toContain("datum /b");
  });

  it("let a path go from one datum to another within one job", async () => {
    await makeRepo("move-in");
    const pipeline = await makePipeline({ name: "move", globs: { "move-in": "/*" } });
    await commit("move-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => ({ same: "x" }) });
    await commit("move-in", { a: null, b: "1" });
    await workUntil(pipeline, { jobs: 2, command: () => ({ same: "y" }) });
    expect((await allJobs(pipeline))[1]?.state).toBe("success");
    expect(await filesOf({ repo: "move", branch: "master" })).toEqual(["same"]);
  });
});

describe("one datum in two jobs", () => {
  it("runs once, for the older job; the other one skips it", async () => {
    await makeRepo("once-in");
    const pipeline = await makePipeline({ name: "once", globs: { "once-in": "/*" } });
    await commit("once-in", { a: "1" });
    await commit("once-in", { a: "2" });
    await commit("once-in", { a: "1" });
    const ran = await workUntil(pipeline, { jobs: 3 });
    expect(ran).toHaveLength(2);
    const counts = (await allJobs(pipeline)).map(({ datums }) => [datums.processed, datums.skipped]);
    expect(counts).toEqual([
      [1, 0],
      [1, 0],
      [0, 1],
    ]);
  });

  it("is tried by the younger job after the older one failed it", async () => {
    await makeRepo("heir-in");
    const pipeline = await makePipeline({ name: "heir", globs: { "heir-in": "/*" } });
    await commit("heir-in", { a: "1" });
    await commit("heir-in", { a: null });
    await commit("heir-in", { a: "1" });
    let left = 3;
    const ran = await workUntil(pipeline, { jobs: 3, command: () => (left-- > 0 ? "fail" : { out: "x" }) });
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ state }) => state)).toEqual(["failure", "success", "success"]);
    expect(ran.map(({ job }) => job)).toEqual([jobs[0]?.id, jobs[0]?.id, jobs[0]?.id, jobs[2]?.id]);
  });

  it("gives its result to a job that asks again later", async () => {
    await makeRepo("reuse-in");
    const pipeline = await makePipeline({ name: "reuse", globs: { "reuse-in": "/*" } });
    await commit("reuse-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("reuse-in", { a: null, b: "1" });
    await commit("reuse-in", { a: "1" });
    expect((await workUntil(pipeline, { jobs: 3 })).map(({ paths }) => paths[0])).toEqual(["b"]);
    expect(await filesOf({ repo: "reuse", branch: "master" })).toEqual(["a.out", "b.out"]);
  });
});
