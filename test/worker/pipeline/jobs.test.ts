import { describe, expect, it } from "vitest";
import {
  allJobs,
  commit,
  echo,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  outcomeOf,
  workUntil,
} from "./support.ts";

describe("a pipeline with one input", () => {
  it("runs nothing again for files that have other tags", async () => {
    await makeRepo("tagged-in");
    const pipeline = await makePipeline({ name: "tagged", globs: { "tagged-in": "/*" } });
    await commit("tagged-in", { a: "1", b: "2" });
    await workUntil(pipeline, { jobs: 1 });
    const set = await master("tagged-in").files.setTags({ path: "a", tags: [["colour", "red"]] });
    expect(set).toMatchObject({ ok: true, commit: expect.any(String) });
    expect(await workUntil(pipeline, { jobs: 2 })).toEqual([]);
    expect((await allJobs(pipeline)).map(({ state, datums }) => ({ state, ...datums }))).toEqual([
      { state: "success", total: 2, processed: 2, skipped: 0, failed: 0 },
      { state: "success", total: 2, processed: 0, skipped: 2, failed: 0 },
    ]);
  });

  it("runs one datum per new file and skips the others", async () => {
    await makeRepo("one-in");
    const pipeline = await makePipeline({ name: "one", globs: { "one-in": "/*" } });
    const first = await commit("one-in", { a: "1", b: "2" });
    await commit("one-in", { c: "3" });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["a", "b", "c"]);
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ state }) => state)).toEqual(["success", "success"]);
    expect(jobs.map(({ datums }) => datums)).toEqual([
      { total: 2, processed: 2, skipped: 0, failed: 0 },
      { total: 3, processed: 1, skipped: 2, failed: 0 },
    ]);
    expect(jobs[0]?.inputs).toEqual([{ name: "one-in", repo: "one-in", branch: "master", commit: first }]);
    expect(await filesOf({ repo: "one", branch: "master" })).toEqual(["a.out", "b.out", "c.out"]);
  });

  it("takes the outputs of vanished datums out of the output branch", async () => {
    await makeRepo("gone-in");
    const pipeline = await makePipeline({ name: "gone", globs: { "gone-in": "/*" } });
    await commit("gone-in", { a: "1", b: "2" });
    await commit("gone-in", { a: null });
    await workUntil(pipeline, { jobs: 2 });
    expect(await filesOf({ repo: "gone", branch: "master" })).toEqual(["b.out"]);
  });

  it("makes one job for a commit that empties the input, and an empty output", async () => {
    await makeRepo("empty-in");
    const pipeline = await makePipeline({ name: "empty", globs: { "empty-in": "/*" } });
    await commit("empty-in", { a: "1" });
    await commit("empty-in", { a: null });
    await workUntil(pipeline, { jobs: 2 });
    const [, second] = await allJobs(pipeline);
    expect(second).toMatchObject({
      state: "success",
      datums: { total: 0, processed: 0, skipped: 0, failed: 0 },
    });
    expect(second?.outputCommit).not.toBeNull();
    expect(await filesOf({ repo: "empty", branch: "master" })).toEqual([]);
  });

  it("skips a file that was changed and changed back", async () => {
    await makeRepo("back-in");
    const pipeline = await makePipeline({ name: "back", globs: { "back-in": "/*" } });
    await commit("back-in", { a: "1" });
    await commit("back-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2 });
    await commit("back-in", { a: "1" });
    await commit("back-in", { a: null });
    await commit("back-in", { a: "2" });
    expect(await workUntil(pipeline, { jobs: 5 })).toEqual([]);
    const counts = (await allJobs(pipeline)).map(({ datums }) => [
      datums.total,
      datums.processed,
      datums.skipped,
    ]);
    expect(counts).toEqual([
      [1, 1, 0],
      [1, 1, 0],
      [1, 0, 1],
      [0, 0, 0],
      [1, 0, 1],
    ]);
  });

  it("makes an output commit for each success, even if nothing changes", async () => {
    await makeRepo("same-in");
    const pipeline = await makePipeline({ name: "same", globs: { "same-in": "/a" } });
    await commit("same-in", { a: "1" });
    await commit("same-in", { unmatched: "x" });
    await workUntil(pipeline, { jobs: 2 });
    const commits = (await allJobs(pipeline)).map(({ outputCommit }) => outputCommit);
    expect(new Set(commits).size).toBe(2);
    expect(commits).not.toContain(null);
  });

  it("counts a file that no glob matches as data: the job has no datums", async () => {
    await makeRepo("text-in");
    const pipeline = await makePipeline({ name: "tables", globs: { "text-in": "/*.csv" } });
    await commit("text-in", { "readme.txt": "x" });
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline))[0]).toMatchObject({ state: "success", datums: { total: 0 } });
  });

  it("does not count an empty directory as data", async () => {
    await makeRepo("dir-only");
    const pipeline = await makePipeline({ name: "dirs", globs: { "dir-only": "/*" } });
    await commit("dir-only", { "d/": "" });
    await commit("dir-only", { f: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const jobs = await allJobs(pipeline);
    expect(jobs).toHaveLength(1);
    expect(jobs[0]?.datums.total).toBe(2);
  });

  it("makes one job for what is there when it is created, however many commits made it", async () => {
    await makeRepo("old-in");
    await commit("old-in", { a: "1" });
    const head = await commit("old-in", { b: "2", "d/e": "3" });
    const pipeline = await makePipeline({ name: "old", globs: { "old-in": "/*" } });
    const ran = await workUntil(pipeline, { jobs: 1 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["a", "b", "d"]);
    const jobs = await allJobs(pipeline);
    expect(jobs).toHaveLength(1);
    expect(jobs[0]?.inputs[0]?.commit).toBe(head);
  });

  it("makes one job when an input branch is deleted, and goes on when it is there again", async () => {
    await makeRepo("del-in");
    const pipeline = await makePipeline({ name: "del", globs: { "del-in": "/*" } });
    await commit("del-in", { a: "1", b: "2" });
    await workUntil(pipeline, { jobs: 1 });
    expect((await master("del-in").lifecycle.destroy()).ok).toBe(true);
    await workUntil(pipeline, { jobs: 2 });
    await makeRepo("del-in");
    await commit("del-in", { b: "2", c: "3" });
    const ran = await workUntil(pipeline, { jobs: 3 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["c"]);
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ datums }) => [datums.total, datums.skipped])).toEqual([
      [2, 0],
      [0, 0],
      [2, 1],
    ]);
    expect(jobs[1]?.inputs[0]?.commit).toBeNull();
    expect(await filesOf({ repo: "del", branch: "master" })).toEqual(["b.out", "c.out"]);
  });

  it("finishes what runs on an input that is deleted meanwhile, in the order of the commits", async () => {
    await makeRepo("under-in");
    const pipeline = await makePipeline({ name: "under", globs: { "under-in": "/*" }, workers: 2 });
    await commit("under-in", { a: "1", b: "1" });
    const held = await leaseSome(pipeline, { worker: "w1", max: 1 });
    expect((await master("under-in").lifecycle.destroy()).ok).toBe(true);
    await makeRepo("under-in");
    await commit("under-in", { a: "1" });
    const outcomes = await Promise.all(
      held.datums.map((datum) => outcomeOf(datum, { command: echo, output: held.output })),
    );
    expect((await pipeline.leases.finish({ worker: "w1", outcomes })).lost).toEqual([]);
    await workUntil(pipeline, { jobs: 3, worker: "w2" });
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ state, datums }) => [state, datums.total, datums.skipped])).toEqual([
      ["success", 2, 0],
      ["success", 0, 0],
      ["success", 1, 1],
    ]);
    expect(await filesOf({ repo: "under", branch: "master" })).toEqual(["a.out"]);
  });

  it("goes on with an input that is emptied file by file and filled again", async () => {
    await makeRepo("drain-in");
    const pipeline = await makePipeline({ name: "drain", globs: { "drain-in": "/*" } });
    await commit("drain-in", { a: "1" });
    await commit("drain-in", { a: null });
    await commit("drain-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 3 });
    expect((await allJobs(pipeline)).map(({ state, datums }) => [state, datums.total])).toEqual([
      ["success", 1],
      ["success", 0],
      ["success", 2],
    ]);
    expect(await filesOf({ repo: "drain", branch: "master" })).toEqual(["a.out", "b.out"]);
  });

  it("reads a datum as it was at its job's commit, also when a later commit replaced it", async () => {
    await makeRepo("late-in");
    const pipeline = await makePipeline({ name: "late", globs: { "late-in": "/*" } });
    const first = await commit("late-in", { a: "1" });
    const second = await commit("late-in", { a: "22" });
    const sizes: unknown[] = [];
    await workUntil(pipeline, {
      jobs: 2,
      max: 1,
      command: (datum) => {
        sizes.push([datum.inputs[0]?.commit, datum.inputs[0]?.content?.size]);
        return {};
      },
    });
    expect(sizes).toEqual([
      [first, 1],
      [second, 2],
    ]);
  });
});

describe("a pipeline with directories as datums", () => {
  it("runs a directory again when something under it changes, and only then", async () => {
    await makeRepo("tree-in");
    const pipeline = await makePipeline({ name: "tree", globs: { "tree-in": "/*" } });
    await commit("tree-in", { "x/a": "1", "y/b/c": "2", z: "3" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("tree-in", { "y/b/d": "4" });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["y"]);
    await commit("tree-in", { "x/a": null });
    expect(await workUntil(pipeline, { jobs: 3 })).toEqual([]);
    expect((await allJobs(pipeline)).map(({ datums }) => datums.total)).toEqual([3, 3, 2]);
  });

  it("takes the whole repo as one datum with '/'", async () => {
    await makeRepo("root-in");
    const pipeline = await makePipeline({ name: "root", globs: { "root-in": "/" } });
    await commit("root-in", { a: "1" });
    await commit("root-in", { "b/c": "2" });
    const kinds: unknown[] = [];
    const ran = await workUntil(pipeline, {
      jobs: 2,
      command: (datum) => {
        kinds.push(datum.inputs[0]);
        return { all: datum.datum };
      },
    });
    expect(ran.map(({ paths }) => paths)).toEqual([[""], [""]]);
    expect(kinds).toMatchObject([
      { path: "", kind: "dir", content: null },
      { path: "", kind: "dir" },
    ]);
  });

  it("turns a file into a directory and back under one path", async () => {
    await makeRepo("turn-in");
    const pipeline = await makePipeline({ name: "turn", globs: { "turn-in": "/*" } });
    await commit("turn-in", { a: "1" });
    await commit("turn-in", { a: null, "a/b": "2" });
    await commit("turn-in", { a: "1", "a/b": null });
    const kinds: unknown[] = [];
    await workUntil(pipeline, {
      jobs: 3,
      command: (datum) => {
        kinds.push(datum.inputs[0]?.kind);
        return {};
      },
    });
    expect(kinds).toEqual(["file", "dir"]);
    expect((await allJobs(pipeline)).map(({ datums }) => datums.skipped)).toEqual([0, 0, 1]);
  });
});
