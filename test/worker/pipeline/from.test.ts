import { describe, expect, it } from "vitest";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
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
  specOf,
  workUntil,
} from "./support.ts";

interface Wish {
  readonly repo: string;
  readonly from?: string;
  readonly glob?: string;
  readonly name?: string;
}

/** An input of a specification that starts after a commit. */
function inputOf({ repo, from, glob = "/*", name = repo }: Wish) {
  const repoOf = { name: repo };
  return { name, repo: repoOf, glob, ...(from !== undefined && { from: { repo: repoOf, ID: from } }) };
}

function wish(name: string, ...inputs: Wish[]) {
  return { name, globs: {}, more: { inputs: inputs.map(inputOf) } };
}

/** The paths that ran, each of its datums' inputs joined. */
async function ranUntil(pipeline: PipelineApi, jobs: number): Promise<string[]> {
  const ran = await workUntil(pipeline, { jobs });
  return ran.map(({ paths }) => paths.join("+")).sort();
}

/** Total and skipped datums of each job. */
async function countsOf(pipeline: PipelineApi): Promise<number[][]> {
  return (await allJobs(pipeline)).map(({ datums }) => [datums.total, datums.skipped]);
}

describe("an input with a `from`", () => {
  it("is triggered by later commits alone, and holds only what they wrote", async () => {
    await makeRepo("plain-in");
    const from = await commit("plain-in", { old: "1", kept: "1" });
    const pipeline = await makePipeline(wish("plain", { repo: "plain-in", from }));
    expect(await allJobs(pipeline)).toEqual([]);
    await commit("plain-in", { new: "1" });
    expect(await ranUntil(pipeline, 1)).toEqual(["new"]);
    await commit("plain-in", { old: "2" });
    expect(await ranUntil(pipeline, 2)).toEqual(["old"]);
    expect(await countsOf(pipeline)).toEqual([
      [1, 0],
      [2, 1],
    ]);
    expect(await filesOf({ repo: "plain", branch: "master" })).toEqual(["new.out", "old.out"]);
  });

  it("has one job for what was written after it before the pipeline was made", async () => {
    await makeRepo("late-in");
    await commit("late-in", { older: "1" });
    const from = await commit("late-in", { old: "1", rewritten: "1" });
    await commit("late-in", { rewritten: "2", gone: "1" });
    await commit("late-in", { gone: null, fresh: "1" });
    const pipeline = await makePipeline(wish("late", { repo: "late-in", from }));
    expect(await ranUntil(pipeline, 1)).toEqual(["fresh", "rewritten"]);
    expect(await allJobs(pipeline)).toHaveLength(1);
  });

  it("makes a job of a commit that deletes what never belonged, and changes nothing in it", async () => {
    await makeRepo("dead-in");
    const from = await commit("dead-in", { old: "1" });
    const pipeline = await makePipeline(wish("dead", { repo: "dead-in", from }));
    await commit("dead-in", { new: "1" });
    await commit("dead-in", { old: null });
    await workUntil(pipeline, { jobs: 2 });
    expect(await countsOf(pipeline)).toEqual([
      [1, 0],
      [1, 1],
    ]);
  });

  it("has no data until something is written after it: the first job comes with the commit that does", async () => {
    await makeRepo("wait-a", "wait-b");
    const from = await commit("wait-a", { a1: "1" });
    await commit("wait-b", { b1: "1" });
    const pipeline = await makePipeline(wish("wait", { repo: "wait-a", from }, { repo: "wait-b" }));
    await commit("wait-b", { b2: "1" });
    await commit("wait-a", { a1: null });
    await commit("wait-a", { "empty/": "" });
    await commit("wait-a", { a2: "1" });
    expect(await ranUntil(pipeline, 1)).toEqual(["a2+b1", "a2+b2", "empty+b1", "empty+b2"]);
    expect(await allJobs(pipeline)).toHaveLength(1);
  });

  it("holds of a directory only what was written after it", async () => {
    await makeRepo("dir-in");
    const from = await commit("dir-in", { "d/old": "1", "e/old": "1" });
    const pipeline = await makePipeline(wish("dir", { repo: "dir-in", from }));
    await commit("dir-in", { "d/new": "1" });
    const first = await leaseSome(pipeline);
    expect(first.datums.map(pathsOf)).toEqual([["d"]]);
    expect(first.datums[0]?.inputs[0]).toMatchObject({ kind: "dir", from });
    expect(await ranUntilHeld(pipeline, first.datums[0]?.lease ?? "")).toEqual(["d"]);
    // What was never part of it goes: the datum is the same.
    await commit("dir-in", { "d/old": null });
    expect(await ranUntil(pipeline, 2)).toEqual([]);
    await commit("dir-in", { "d/newer": "1" });
    expect(await ranUntil(pipeline, 3)).toEqual(["d"]);
    await commit("dir-in", { "d/new": null, "d/newer": null });
    await workUntil(pipeline, { jobs: 4 });
    expect(await countsOf(pipeline)).toEqual([
      [1, 0],
      [1, 1],
      [1, 0],
      [0, 0],
    ]);
  });

  it("is the root, too: one datum of what was written after it", async () => {
    await makeRepo("root-in");
    const from = await commit("root-in", { old: "1" });
    const pipeline = await makePipeline(wish("root", { repo: "root-in", from, glob: "/" }));
    await commit("root-in", { new: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("root-in", { old: null });
    await workUntil(pipeline, { jobs: 2 });
    expect(await countsOf(pipeline)).toEqual([
      [1, 0],
      [1, 1],
    ]);
  });

  it("may start elsewhere than another input of the same branch", async () => {
    await makeRepo("two");
    const first = await commit("two", { a: "1" });
    const second = await commit("two", { b: "1" });
    const inputs: Wish[] = [
      { name: "all", repo: "two" },
      { name: "few", repo: "two", from: second },
      { name: "some", repo: "two", from: first },
    ];
    const pipeline = await makePipeline(wish("two-p", ...inputs));
    expect(await allJobs(pipeline)).toEqual([]);
    await commit("two", { c: "1" });
    expect(await ranUntil(pipeline, 1)).toEqual(
      ["a", "b", "c"].flatMap((all) => ["b", "c"].map((some) => `${all}+c+${some}`)).sort(),
    );
    await commit("two", { b: "2" });
    await workUntil(pipeline, { jobs: 2 });
    expect((await countsOf(pipeline)).map(([total]) => total)).toEqual([6, 12]);
  });

  it("holds all of a branch that was deleted and made again since", async () => {
    await makeRepo("again-in");
    const from = await commit("again-in", { a: "1" });
    const pipeline = await makePipeline(wish("again", { repo: "again-in", from }));
    await master("again-in").lifecycle.destroy();
    await makeRepo("again-in");
    await commit("again-in", { a: "1" });
    expect(await ranUntil(pipeline, 1)).toEqual(["a"]);
    await master("again-in").lifecycle.destroy();
    await makeRepo("again-in");
    await commit("again-in", { a: "1", b: "1" });
    expect(await ranUntil(pipeline, 3)).toEqual(["b"]);
    expect(await countsOf(pipeline)).toEqual([
      [1, 0],
      [0, 0],
      [2, 1],
    ]);
  });

  it("may start after a commit of an earlier life of the branch", async () => {
    await makeRepo("life-in");
    const from = await commit("life-in", { a: "1" });
    await master("life-in").lifecycle.destroy();
    await makeRepo("life-in");
    await commit("life-in", { b: "1" });
    const pipeline = await makePipeline(wish("life", { repo: "life-in", from }));
    expect(await ranUntil(pipeline, 1)).toEqual(["b"]);
  });

  it("is refused where its branch has no such commit, and leaves nothing behind", async () => {
    await makeRepo("none-in", "other-in");
    const other = await commit("other-in", { a: "1" });
    for (const repo of ["none-in", "nowhere"]) {
      const spec = specOf(wish("none", { repo, from: other }));
      expect(await pipelineOf("none").lifecycle.create(spec)).toEqual({
        ok: false,
        reason: "no-such-commit",
      });
    }
    expect(await pipelineOf("none").lifecycle.inspect()).toEqual({ ok: false, reason: "no-such-pipeline" });
    expect(await master("none").lifecycle.status()).toMatchObject({ ok: false });
  });

  it("survives a stop and a start, which sees what came meanwhile", async () => {
    await makeRepo("stop-in");
    const from = await commit("stop-in", { old: "1" });
    const pipeline = await makePipeline(wish("stop", { repo: "stop-in", from }));
    await pipeline.lifecycle.stop();
    await pipeline.lifecycle.start();
    expect(await allJobs(pipeline)).toEqual([]);
    await pipeline.lifecycle.stop();
    await commit("stop-in", { new: "1" });
    await pipeline.lifecycle.start();
    expect(await ranUntil(pipeline, 1)).toEqual(["new"]);
    await pipeline.lifecycle.stop();
    await commit("stop-in", { old: null, newer: "1" });
    await pipeline.lifecycle.start();
    expect(await ranUntil(pipeline, 2)).toEqual(["newer"]);
  });
});

/** Gives a lease back, then works. */
async function ranUntilHeld(pipeline: PipelineApi, lease: string): Promise<string[]> {
  await pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, state: "returned" }] });
  return ranUntil(pipeline, 1);
}

describe("an update of `from`", () => {
  it("lets go of what does not belong any more, and takes in what does again", async () => {
    await makeRepo("move-in");
    const first = await commit("move-in", { a: "1" });
    const second = await commit("move-in", { b: "1" });
    await commit("move-in", { c: "1" });
    const pipeline = await makePipeline(wish("move", { repo: "move-in" }));
    expect(await ranUntil(pipeline, 1)).toEqual(["a", "b", "c"]);
    const expected = [
      { from: second, files: ["c.out"] },
      { from: first, files: ["b.out", "c.out"] },
      { from: undefined, files: ["a.out", "b.out", "c.out"] },
    ];
    for (const [index, { from, files }] of expected.entries()) {
      const spec = specOf(wish("move", { repo: "move-in", ...(from !== undefined && { from }) }));
      expect((await pipeline.specification.update({ spec, reprocess: false })).ok).toBe(true);
      expect(await ranUntil(pipeline, index + 2)).toEqual([]);
      expect(await filesOf({ repo: "move", branch: "master" })).toEqual(files);
    }
  });

  it("to the newest commit waits for a later one, with one job then", async () => {
    await makeRepo("head-in");
    const pipeline = await makePipeline(wish("head", { repo: "head-in" }));
    const from = await commit("head-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const spec = specOf(wish("head", { repo: "head-in", from }));
    expect((await pipeline.specification.update({ spec, reprocess: false })).ok).toBe(true);
    expect(await allJobs(pipeline)).toHaveLength(1);
    await commit("head-in", { b: "1" });
    expect(await ranUntil(pipeline, 2)).toEqual(["b"]);
    expect(await filesOf({ repo: "head", branch: "master" })).toEqual(["b.out"]);
  });

  it("of a stopped pipeline holds when it starts", async () => {
    await makeRepo("rest-in");
    const pipeline = await makePipeline(wish("rest", { repo: "rest-in" }));
    const from = await commit("rest-in", { a: "1" });
    await commit("rest-in", { b: "1" });
    await workUntil(pipeline, { jobs: 2 });
    await pipeline.lifecycle.stop();
    const spec = specOf(wish("rest", { repo: "rest-in", from }));
    expect((await pipeline.specification.update({ spec, reprocess: false })).ok).toBe(true);
    await pipeline.lifecycle.start();
    await workUntil(pipeline, { jobs: 3 });
    expect(await filesOf({ repo: "rest", branch: "master" })).toEqual(["b.out"]);
  });

  it("is refused where the branch has no such commit, and changes nothing", async () => {
    await makeRepo("bad-in", "stray-in");
    const stray = await commit("stray-in", { a: "1" });
    const pipeline = await makePipeline(wish("bad", { repo: "bad-in" }));
    const spec = specOf(wish("bad", { repo: "bad-in", from: stray }));
    expect(await pipeline.specification.update({ spec, reprocess: false })).toEqual({
      ok: false,
      reason: "no-such-commit",
    });
    expect(await pipeline.lifecycle.inspect()).toMatchObject({ pipeline: { version: 1 } });
  });
});

describe("an update of `lazy`", () => {
  it("lets running jobs go on and runs nothing again", async () => {
    await makeRepo("lazy-in");
    const pipeline = await makePipeline(wish("lazy", { repo: "lazy-in" }));
    await commit("lazy-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("lazy-in", { b: "1" });
    const { datums } = await leaseSome(pipeline);
    const spec = specOf({
      name: "lazy",
      globs: {},
      more: { inputs: [{ ...inputOf({ repo: "lazy-in" }), lazy: true }] },
    });
    expect((await pipeline.specification.update({ spec, reprocess: false })).ok).toBe(true);
    const leases = datums.map(({ lease }) => lease);
    expect(await pipeline.leases.renew({ worker: "w1", leases })).toMatchObject({ lost: [] });
    const outcomes = leases.map((lease) => ({ lease, state: "returned" as const }));
    expect(await pipeline.leases.finish({ worker: "w1", outcomes })).toEqual({ lost: [] });
    expect(await ranUntil(pipeline, 3)).toEqual(["b"]);
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["success", "success", "success"]);
  });
});
