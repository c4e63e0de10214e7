import { describe, expect, it } from "vitest";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import {
  allJobs,
  branchOf,
  clockMovesOn,
  commit,
  commitBefore,
  filesOf,
  makePipeline,
  makeRepo,
  master,
  query,
  workOnce,
  workUntil,
} from "./support.ts";

/** So many files, more than are read at a time, in three directories. */
function manyFiles(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`d${index % 3}/f${index}`, "1"]));
}

async function destroy(repo: string): Promise<void> {
  const destroyed = await master(repo).lifecycle.destroy();
  if (!destroyed.ok) throw new Error(destroyed.reason);
}

async function totalsOf(pipeline: PipelineApi): Promise<number[]> {
  return (await allJobs(pipeline)).map(({ datums }) => datums.total);
}

async function statesOf(pipeline: PipelineApi): Promise<string[]> {
  return (await allJobs(pipeline)).map(({ state }) => state);
}

describe("under a live pipeline, an input branch", () => {
  it("that is deleted twice quickly, and made again in between, makes a job each time", async () => {
    await makeRepo("twice-in");
    const pipeline = await makePipeline({ name: "twice", globs: { "twice-in": "/*" } });
    await commit("twice-in", { a: "1" });
    await destroy("twice-in");
    await makeRepo("twice-in");
    await destroy("twice-in");
    await makeRepo("twice-in");
    await commit("twice-in", { b: "1" });
    await workUntil(pipeline, { jobs: 4 });
    expect(await totalsOf(pipeline)).toEqual([1, 0, 0, 1]);
    expect(await filesOf({ repo: "twice", branch: "master" })).toEqual(["b.out"]);
  });

  it("that is deleted while its datums are being worked out leaves no datum behind", async () => {
    await makeRepo("half-in");
    const pipeline = await makePipeline({ name: "half", globs: { "half-in": "/*" } });
    await commit("half-in", { first: "1" });
    await workUntil(pipeline, { jobs: 1 });
    // More than one slice: the deletion comes while the rest of them is still to be read.
    await commit("half-in", manyFiles(1500));
    await destroy("half-in");
    await workUntil(pipeline, { jobs: 3 });
    expect(await totalsOf(pipeline)).toEqual([1, 4, 0]);
    expect(await statesOf(pipeline)).toEqual(["success", "success", "success"]);
    expect(await query("half", "SELECT count(*) AS n FROM datums WHERE died IS NULL")).toEqual([{ n: 0 }]);
    expect(await filesOf({ repo: "half", branch: "master" })).toEqual([]);
  });

  it("that is deleted before its first job's datums are read still has them in that job", async () => {
    await makeRepo("early-in");
    await commit("early-in", manyFiles(600));
    const pipeline = await makePipeline({ name: "early", globs: { "early-in": "/*" } });
    await destroy("early-in");
    await workUntil(pipeline, { jobs: 2 });
    expect(await totalsOf(pipeline)).toEqual([3, 0]);
  });

  it("that was the last of its repo takes the repo along, and both come back with it", async () => {
    await makeRepo("only-in");
    const pipeline = await makePipeline({ name: "only", globs: { "only-in": "/" } });
    await commit("only-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await destroy("only-in");
    expect(await master("only-in").lifecycle.status()).toMatchObject({ ok: false });
    await workUntil(pipeline, { jobs: 2 });
    await makeRepo("only-in");
    await commit("only-in", { a: "1" });
    expect((await workUntil(pipeline, { jobs: 3 })).map(({ paths }) => paths)).toEqual([]);
    expect((await allJobs(pipeline))[2]).toMatchObject({
      state: "success",
      datums: { total: 1, skipped: 1 },
    });
    expect(await filesOf({ repo: "only", branch: "master" })).toEqual(["root.out"]);
  });

  it("that two of its inputs read empties both with one job", async () => {
    await makeRepo("both-in");
    const pipeline = await makePipeline({
      name: "both",
      globs: { left: "/l*", right: "/r*" },
      repos: { left: "both-in", right: "both-in" },
    });
    await commit("both-in", { l1: "1", l2: "1", r1: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await destroy("both-in");
    await makeRepo("both-in");
    await commit("both-in", { l1: "1", r1: "1" });
    await workUntil(pipeline, { jobs: 3 });
    expect(await totalsOf(pipeline)).toEqual([2, 0, 1]);
    expect(await filesOf({ repo: "both", branch: "master" })).toEqual(["l1+r1.out"]);
  });

  it("that is one of two leaves the other one's data alone", async () => {
    await makeRepo("one-a", "one-b");
    const pipeline = await makePipeline({ name: "one", globs: { "one-a": "/*", "one-b": "/*" } });
    await commitBefore("one-a", { a1: "1", a2: "1" });
    await commitBefore("one-b", { b1: "1" });
    await destroy("one-b");
    await clockMovesOn();
    await commitBefore("one-a", { a3: "1" });
    await makeRepo("one-b");
    await commit("one-b", { b1: "1" });
    await workUntil(pipeline, { jobs: 4 });
    expect(await totalsOf(pipeline)).toEqual([2, 0, 0, 3]);
    expect(await filesOf({ repo: "one", branch: "master" })).toEqual(["a1+b1.out", "a2+b1.out", "a3+b1.out"]);
  });

  it("that is deleted before every input had data makes no job, and does not count as data", async () => {
    await makeRepo("wait-a", "wait-b");
    const pipeline = await makePipeline({ name: "wait", globs: { "wait-a": "/*", "wait-b": "/*" } });
    await commit("wait-a", { a: "1" });
    await destroy("wait-a");
    await clockMovesOn();
    await commitBefore("wait-b", { b: "1" });
    await makeRepo("wait-a");
    expect(await allJobs(pipeline)).toEqual([]);
    await commit("wait-a", { a: "2" });
    await workUntil(pipeline, { jobs: 1 });
    expect(await totalsOf(pipeline)).toEqual([1]);
  });

  it("that is empty is deleted with one job, and its pipeline runs on", async () => {
    await makeRepo("bare-in");
    const pipeline = await makePipeline({ name: "bare", globs: { "bare-in": "/*" } });
    await destroy("bare-in");
    await makeRepo("bare-in");
    await commit("bare-in", { a: "1" });
    await commit("bare-in", { a: null });
    await destroy("bare-in");
    await workUntil(pipeline, { jobs: 3 });
    expect(await totalsOf(pipeline)).toEqual([1, 0, 0]);
    expect(await statesOf(pipeline)).toEqual(["success", "success", "success"]);
  });

  it("that is deleted while its job runs and fails lets the later jobs end well", async () => {
    await makeRepo("fail-in");
    const pipeline = await makePipeline({
      name: "fail",
      globs: { "fail-in": "/*" },
      more: { datumTries: 1 },
    });
    await commit("fail-in", { a: "1" });
    await destroy("fail-in");
    await makeRepo("fail-in");
    await commit("fail-in", { b: "1" });
    while ((await workOnce(pipeline, { command: () => "fail", max: 1 })).length === 0);
    await workUntil(pipeline, { jobs: 3 });
    expect(await statesOf(pipeline)).toEqual(["failure", "success", "success"]);
    expect(await filesOf({ repo: "fail", branch: "master" })).toEqual(["b.out"]);
  });

  it("that is another pipeline's output goes and comes with that pipeline", async () => {
    await makeRepo("up-in");
    await commit("up-in", { a: "1" });
    const first = await makePipeline({ name: "up", globs: { "up-in": "/*" } });
    const second = await makePipeline({ name: "down", globs: { up: "/*" } });
    await workUntil(first, { jobs: 1 });
    await workUntil(second, { jobs: 1 });
    await first.lifecycle.destroy({ keepOutput: false });
    await workUntil(second, { jobs: 2 });
    expect(await filesOf({ repo: "down", branch: "master" })).toEqual([]);
    const anew = await makePipeline({ name: "up", globs: { "up-in": "/*" } });
    await workUntil(anew, { jobs: 1 });
    await workUntil(second, { jobs: 3 });
    expect(await filesOf({ repo: "down", branch: "master" })).toEqual(["a.out.out"]);
    expect(await branchOf({ repo: "up", branch: "master" }).lifecycle.status()).toMatchObject({
      claimedBy: "up",
    });
  });
});
