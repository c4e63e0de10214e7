import { env } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { feed } from "../../../worker/branch/calls/feed.ts";
import { PipelineTable } from "../../../worker/catalogue/pipelines.ts";
import { wakeUps } from "../../../worker/pipeline/calls/lifecycle.ts";
import {
  allJobs,
  clockMovesOn,
  commit,
  commitBefore,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  query,
  workUntil,
} from "./support.ts";

async function uidOf(name: string): Promise<string> {
  const row = (await new PipelineTable(env.DB).list()).find((pipeline) => pipeline.name === name);
  if (!row) throw new Error(`${name} is not in the catalogue`);
  return row.uid;
}

/** The commits of the example in docs/contract.md, Several inputs: A, B, A, B, each of one new file. */
async function exampleCommits(a: string, b: string): Promise<void> {
  await commitBefore(a, { A1: "a1" });
  await commitBefore(b, { B1: "b1" });
  await commitBefore(a, { A2: "a2" });
  await commit(b, { B2: "b2" });
}

describe("a pipeline with two inputs", () => {
  it("makes the jobs of the specification's example", async () => {
    await makeRepo("ex-a", "ex-b");
    const pipeline = await makePipeline({ name: "ex", globs: { "ex-a": "/*", "ex-b": "/*" } });
    await exampleCommits("ex-a", "ex-b");
    const ran = await workUntil(pipeline, { jobs: 3, max: 1 });
    const jobs = await allJobs(pipeline);
    expect(jobs.map(({ datums }) => [datums.total, datums.processed, datums.skipped])).toEqual([
      [1, 1, 0],
      [2, 1, 1],
      [4, 2, 2],
    ]);
    expect(ran.map(({ job, paths }) => [jobs.findIndex(({ id }) => id === job), paths.join("+")])).toEqual([
      [0, "A1+B1"],
      [1, "A2+B1"],
      [2, "A1+B2"],
      [2, "A2+B2"],
    ]);
  });

  it("makes the same jobs when no bell rang until all commits were there", async () => {
    await makeRepo("held-a", "held-b");
    const pipeline = await makePipeline({ name: "held", globs: { "held-a": "/*", "held-b": "/*" } });
    const uid = await uidOf("held");
    await Promise.all(["held-a", "held-b"].map((repo) => master(repo).feed.unsubscribe({ uid })));
    await exampleCommits("held-a", "held-b");
    expect(await allJobs(pipeline)).toEqual([]);
    await pipeline.wakeUps.ring({ uid });
    await workUntil(pipeline, { jobs: 3 });
    expect((await allJobs(pipeline)).map(({ datums }) => datums.total)).toEqual([1, 2, 4]);
  });

  it("makes the same jobs when bells ring twice, late and for nothing", async () => {
    await makeRepo("twice-a", "twice-b");
    const pipeline = await makePipeline({ name: "twice", globs: { "twice-a": "/*", "twice-b": "/*" } });
    const uid = await uidOf("twice");
    await pipeline.wakeUps.ring({ uid });
    for (const files of [{ A1: "a1" }, { A2: "a2" }]) {
      await Promise.all([
        commit("twice-a", files),
        pipeline.wakeUps.ring({ uid }),
        pipeline.wakeUps.ring({ uid }),
      ]);
      await clockMovesOn();
      await commitBefore("twice-b", { [`for-${Object.keys(files)[0]}`]: "b" });
      await Promise.all([
        pipeline.wakeUps.ring({ uid }),
        pipeline.wakeUps.ring({ uid }),
        pipeline.wakeUps.ring({ uid: "stranger" }),
      ]);
    }
    await workUntil(pipeline, { jobs: 3 });
    await pipeline.wakeUps.ring({ uid });
    await workUntil(pipeline, { jobs: 3 });
    expect((await allJobs(pipeline)).map(({ datums }) => datums.total)).toEqual([1, 2, 4]);
  });

  it("lets the first input by name vary fastest", async () => {
    await makeRepo("fast-x", "fast-y");
    const pipeline = await makePipeline({
      name: "fast",
      globs: { zeta: "/*", alpha: "/*" },
      repos: { zeta: "fast-x", alpha: "fast-y" },
    });
    await commit("fast-x", { "1": "x1", "2": "x2" });
    await commit("fast-y", { a: "ya", b: "yb" });
    const ran = await workUntil(pipeline, { jobs: 1, max: 1 });
    expect(ran.map(({ paths }) => paths.join(""))).toEqual(["a1", "b1", "a2", "b2"]);
  });

  it("kills every pair of a file that is gone, and pairs what replaced it", async () => {
    await makeRepo("pair-a", "pair-b");
    const pipeline = await makePipeline({ name: "pair", globs: { "pair-a": "/*", "pair-b": "/*" } });
    await commit("pair-a", { a1: "1", a2: "2", a3: "3" });
    await commit("pair-b", { b1: "1", b2: "2" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("pair-a", { a1: null, a2: "changed", a4: "4" });
    const ran = await workUntil(pipeline, { jobs: 2, max: 1 });
    expect(ran.map(({ paths }) => paths.join("+"))).toEqual(["a2+b1", "a4+b1", "a2+b2", "a4+b2"]);
    expect((await allJobs(pipeline)).map(({ datums }) => datums.total)).toEqual([6, 6]);
  });

  it("makes one job a commit where both inputs read one branch, and runs no pair in vain", async () => {
    await makeRepo("both");
    const pipeline = await makePipeline({
      name: "both-p",
      globs: { left: "/l*", right: "/r*" },
      repos: { left: "both", right: "both" },
    });
    await commit("both", { l1: "1", r1: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("both", { l1: "2", r1: "2", l2: "1" });
    const ran = await workUntil(pipeline, { jobs: 2, max: 1 });
    expect(ran.map(({ paths }) => paths.join("+"))).toEqual(["l1+r1", "l2+r1"]);
    expect((await allJobs(pipeline)).map(({ datums }) => datums)).toEqual([
      { total: 1, processed: 1, skipped: 0, failed: 0 },
      { total: 2, processed: 2, skipped: 0, failed: 0 },
    ]);
  });

  it("has no datums while one input is empty again, and all of them when it is not", async () => {
    await makeRepo("void-a", "void-b");
    const pipeline = await makePipeline({ name: "void", globs: { "void-a": "/*", "void-b": "/*" } });
    await commit("void-a", { a1: "1", a2: "2" });
    await commit("void-b", { b1: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commitBefore("void-b", { b1: null });
    await commitBefore("void-a", { a3: "3" });
    await commit("void-b", { b1: "1" });
    await workUntil(pipeline, { jobs: 4 });
    expect((await allJobs(pipeline)).map(({ datums }) => [datums.total, datums.skipped])).toEqual([
      [2, 0],
      [0, 0],
      [0, 0],
      [3, 2],
    ]);
  });

  it("expands a large cross product in slices, each pair once", async () => {
    await makeRepo("wide-a", "wide-b");
    const pipeline = await makePipeline({
      name: "wide",
      globs: { "wide-a": "/*", "wide-b": "/*" },
      workers: 1,
    });
    const files = (prefix: string, count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, `${index}`]));
    await commit("wide-a", files("a", 40));
    await commit("wide-b", files("b", 30));
    const seen = new Set<string>();
    await workUntil(pipeline, {
      jobs: 1,
      max: 64,
      command: (datum) => {
        seen.add(pathsOf(datum).join("+"));
        return {};
      },
    });
    await commit("wide-b", { b0: "other" });
    await commit("wide-a", { a7: null });
    await workUntil(pipeline, { jobs: 3, max: 64, command: () => ({}) });
    expect(seen.size).toBe(1200);
    expect((await allJobs(pipeline)).map(({ datums }) => [datums.total, datums.processed])).toEqual([
      [1200, 1200],
      [1200, 40],
      [1170, 0],
    ]);
  });
});

describe("a wake-up that comes while a feed is on its way", () => {
  it("is not lost: the commit it rang for, which that feed lacks, has its job", async () => {
    await makeRepo("late-bell");
    const pipeline = await makePipeline({ name: "late", globs: { "late-bell": "/*" } });
    const uid = await uidOf("late");
    await commit("late-bell", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const due = () => query("late", "SELECT pullDue FROM pipeline");
    await expect.poll(due).toEqual([{ pullDue: 0 }]);
    const ring = vi.spyOn(wakeUps, "ring");
    const { read } = feed;
    let commits = 0;
    const feeding = vi.spyOn(feed, "read").mockImplementation(async (reach, request) => {
      const page = await read(reach, request);
      if (commits++ === 0) {
        const heard = ring.mock.calls.length;
        await commit("late-bell", { b: "1" });
        await vi.waitFor(() => expect(ring.mock.calls.length).toBeGreaterThan(heard), 45_000);
      }
      return page;
    });
    try {
      await pipeline.wakeUps.ring({ uid });
      await expect.poll(due).toEqual([{ pullDue: 0 }]);
      expect(await allJobs(pipeline)).toHaveLength(2);
    } finally {
      feeding.mockRestore();
      ring.mockRestore();
    }
  });
});

describe("the first job", () => {
  it("waits until the last empty input has data, also where data came and went", async () => {
    await makeRepo("wait-a", "wait-b");
    const pipeline = await makePipeline({ name: "wait", globs: { "wait-a": "/*", "wait-b": "/*" } });
    await commitBefore("wait-a", { a: "1" });
    await commitBefore("wait-a", { a: null });
    await commitBefore("wait-b", { b: "1" });
    await commit("wait-a", { a: "2" });
    await workUntil(pipeline, { jobs: 1 });
    const jobs = await allJobs(pipeline);
    expect(jobs).toHaveLength(1);
    expect(jobs[0]?.datums.total).toBe(1);
  });

  it("comes with an input branch that is made only after the pipeline", async () => {
    const pipeline = await makePipeline({ name: "early", globs: { "early-in": "/*" } });
    await makeRepo("early-in");
    await commit("early-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline))[0]?.datums.total).toBe(1);
  });

  it("is for the heads where all inputs have data at the creation; a half-filled set waits", async () => {
    await makeRepo("half-a", "half-b");
    await commit("half-a", { a1: "1", a2: "2" });
    const pipeline = await makePipeline({ name: "half", globs: { "half-a": "/*", "half-b": "/*" } });
    expect(await allJobs(pipeline)).toEqual([]);
    await commit("half-b", { b: "1" });
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline)).map(({ datums }) => datums.total)).toEqual([2]);
  });
});

describe("a chain of two pipelines", () => {
  it("runs the second on what the first wrote, one job for each of its commits", async () => {
    await makeRepo("chain-in");
    const first = await makePipeline({ name: "chain-1", globs: { "chain-in": "/*" } });
    const second = await makePipeline({ name: "chain-2", globs: { "chain-1": "/" } });
    await commit("chain-in", { a: "1" });
    await commit("chain-in", { b: "2" });
    await workUntil(first, { jobs: 2 });
    await workUntil(second, { jobs: 2, command: (datum) => ({ report: datum.datum }) });
    const [ones, twos] = await Promise.all([allJobs(first), allJobs(second)]);
    expect(twos.map(({ inputs }) => inputs[0]?.commit)).toEqual(ones.map(({ outputCommit }) => outputCommit));
    expect(twos.map(({ state }) => state)).toEqual(["success", "success"]);
  });
});
