import { env, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { bucketName } from "../../../protocol/names.ts";
import type { NodeWork } from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { killBranch, killPipeline } from "./kill.ts";
import {
  allJobs,
  commit,
  leaseSome,
  makePipeline,
  makeRepo,
  pipelineOf,
  query,
  type SpecOptions,
  workUntil,
} from "./support.ts";

const { nodes } = openCatalogue(env.DB);

beforeEach(() => env.DB.prepare("DELETE FROM nodes").run());

/** A time at which a node that was heard of then still lives when a slow machine comes to the end of a test. */
const soon = (): number => Date.now() + 600_000;

async function beat(...names: string[]): Promise<void> {
  for (const name of names) await beatWith("docker", name);
}

async function beatWith(executor: string, name: string): Promise<void> {
  await nodes.record({ name, executor, capacity: 1, seenAt: soon(), work: [] });
}

/** A pipeline with a job that a worker could run. */
async function waiting(
  name: string,
  {
    workers = 1,
    files = 1,
    more = {},
  }: { workers?: number; files?: number; more?: SpecOptions["more"] } = {},
): Promise<PipelineApi> {
  await makeRepo(`${name}-in`);
  const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" }, workers, more });
  await commit(`${name}-in`, Object.fromEntries(Array.from({ length: files }, (_, n) => [`a${n}`, `${n}`])));
  await expect.poll(async () => (await allJobs(pipeline))[0]?.state).toBe("running");
  // Lets it ask for the nodes again: what it knew of them is too old by now.
  await killPipeline(name);
  return pipelineOf(name);
}

async function reason(pipeline: PipelineApi): Promise<string | null | undefined> {
  return (await allJobs(pipeline))[0]?.reason;
}

async function waitsFor(pipeline: PipelineApi): Promise<string | undefined> {
  return (await allJobs(pipeline))[0]?.waitsFor;
}

const renewal = (worker: string, trouble: string | null) => ({ worker, leases: [], trouble });

/** Gives back what a worker has leased. */
async function giveBack(pipeline: PipelineApi, worker: string): Promise<void> {
  const { datums } = await leaseSome(pipeline, { worker });
  const outcomes = datums.map(({ lease }) => ({ lease, state: "returned" as const }));
  await pipeline.leases.finish({ worker, outcomes });
}

describe("a job that nobody works on says why", () => {
  it("when no runner lives", async () => {
    expect(await reason(await waiting("none"))).toBe("no live runner: start one with `sluice runner`");
  });

  it("when every node is being drained", async () => {
    await beat("n1", "n2");
    await nodes.setDraining("n1", 1);
    await nodes.setDraining("n2", 1);
    expect(await reason(await waiting("drained"))).toBe(
      "every node is being drained: let one take work again with `sluice node resume`",
    );
  });

  it("when nodes live and none has a worker for it", async () => {
    await beat("n1");
    expect(await reason(await waiting("idle"))).toBe("no live node has a worker for it yet");
  });

  it("when it demands a container and every node runs processes: which, and no worker of theirs gets it", async () => {
    await beatWith("process", "n1");
    const transform = { image: "none", cmd: ["true"], container: "required" as const };
    const pipeline = await waiting("boxed", { more: { transform } });
    expect(await pipeline.leases.take({ node: "n1", worker: "w1", max: 1, waitMs: 0 })).toMatchObject({
      ok: true,
      slot: false,
      datums: [],
    });
    expect(await reason(pipeline)).toBe(
      'no live node runs containers, which its specification demands ("container": "required"): n1 runs commands as processes',
    );
    for (const name of ["n2", "n3", "n4"]) await beatWith("process", name);
    await killPipeline("boxed");
    expect(await reason(pipelineOf("boxed"))).toContain(": n1, n2, n3 and 1 more run commands as processes");
    await beat("n5");
    await killPipeline("boxed");
    const able = pipelineOf("boxed");
    expect(await reason(able)).toBe("no live node has a worker for it yet");
    expect(await able.leases.take({ node: "n1", worker: "w1", max: 1, waitMs: 0 })).toMatchObject({
      slot: false,
    });
    // The catalogue has not heard of it.
    expect(await able.leases.take({ node: "n9", worker: "w9", max: 1, waitMs: 0 })).toMatchObject({
      slot: false,
    });
    const leased = await able.leases.take({ node: "n5", worker: "w5", max: 1, waitMs: 0 });
    expect(leased).toMatchObject({ slot: true, datums: [{}], transform: { container: "required" } });
    // Whether a node is able to run it has nothing to do with whether it is being drained.
    await nodes.setDraining("n1", 1);
    await query("boxed", "DELETE FROM slots");
    await killPipeline("boxed");
    const drained = { node: "n1", worker: "w1", max: 1, waitMs: 0 };
    expect(await pipelineOf("boxed").leases.take(drained)).toMatchObject({ slot: false });
  });

  it("when its image can't be pulled: which node says so, in the words of the registry on one line", async () => {
    await beat("n1");
    const pipeline = await waiting("pull");
    await giveBack(pipeline, "w1");
    expect(await reason(pipeline)).toBeNull();
    await pipeline.leases.renew(renewal("w1", "image nope:1:\n  manifest unknown"));
    expect(await reason(pipeline)).toBe("node n1 can't run it: image nope:1: manifest unknown");
    // It stays until the worker says otherwise: renewals without a word leave it.
    await pipeline.leases.renew({ worker: "w1", leases: [] });
    expect(await reason(pipeline)).toContain("manifest unknown");
    await pipeline.leases.renew(renewal("w1", null));
    expect(await reason(pipeline)).toBeNull();
  });

  it("when several nodes have trouble: one of them, and how many more", async () => {
    await beat("n1", "n2", "n3");
    const pipeline = await waiting("many", { workers: 4 });
    for (const [worker, node] of [
      ["w1", "n1"],
      ["w2", "n2"],
      ["w3", "n2"],
      ["w4", "n3"],
    ] as const) {
      const leased = await pipeline.leases.take({ node, worker, max: 1, waitMs: 0 });
      if (!leased.ok) throw new Error(leased.reason);
      const outcomes = leased.datums.map(({ lease }) => ({ lease, state: "returned" as const }));
      await pipeline.leases.finish({ worker, outcomes });
      await pipeline.leases.renew(renewal(worker, `no disk on ${node}`));
    }
    expect(await reason(pipeline)).toBe("node n1 and 2 more can't run it: no disk on n1");
  });
});

describe("a job says what it waits for", () => {
  it("a runner as long as no worker has it, and nothing while one does", async () => {
    const pipeline = await waiting("waits-runner", { files: 2 });
    expect(await waitsFor(pipeline)).toBe("runner");
    await beat("n1");
    await killPipeline("waits-runner");
    expect(await waitsFor(pipelineOf("waits-runner"))).toBe("runner");
    await leaseSome(pipelineOf("waits-runner"), { max: 1 });
    expect(await waitsFor(pipelineOf("waits-runner"))).toBeUndefined();
  });

  it("an earlier job, whatever that waits for itself", async () => {
    const pipeline = await waiting("waits-job");
    await commit("waits-job-in", { b: "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(2);
    const [older, newer] = await allJobs(pipeline);
    expect([older?.waitsFor, newer?.waitsFor]).toEqual(["runner", "job"]);
    await leaseSome(pipeline, { max: 1 });
    const [running, behind] = await allJobs(pipeline);
    expect([running?.waitsFor, behind?.waitsFor]).toEqual([undefined, "job"]);
  });

  it("nothing once it has ended", async () => {
    const pipeline = await waiting("waits-over");
    await workUntil(pipeline, { jobs: 1 });
    expect(await waitsFor(pipeline)).toBeUndefined();
  });
});

describe("a job that its nodes can't work on as its specification says", () => {
  interface Told {
    readonly running: number;
    readonly workers: number;
    readonly work?: NodeWork[];
  }
  const beatWithin = async (name: string, { work = [], ...bounds }: Told) =>
    nodes.record({ name, executor: "docker", capacity: 1, seenAt: soon(), work, bounds });

  // They would want their share.
  beforeEach(() => env.DB.prepare("DELETE FROM pipelines").run());

  it("says how many its nodes run at once, while they work on it", async () => {
    await beatWithin("n1", { running: 16, workers: 256 });
    await beatWithin("n2", { running: 16, workers: 256 });
    const pipeline = await waiting("fast", { workers: 40, files: 50 });
    await leaseSome(pipeline, { max: 1 });
    expect(await reason(pipeline)).toBe("wants 40 at once, its nodes run 32");
    expect(await waitsFor(pipeline)).toBeUndefined();
  });

  it("says how many workers the fleet has room for, and what it gives to others is not its own", async () => {
    await beatWithin("n1", { running: 1000, workers: 25 });
    const pipeline = await waiting("wide", { workers: 40, files: 45 });
    expect(await reason(pipeline)).toBe("wants 40 workers, the fleet has room for 25");
    await beatWithin("n2", { running: 8, workers: 4 });
    await killPipeline("wide");
    expect(await reason(pipelineOf("wide"))).toBe("wants 40 workers, the fleet has room for 29");
    await waiting("other", { workers: 20 });
    await killPipeline("wide");
    expect(await reason(pipelineOf("wide"))).toBe("wants 40 workers, the fleet has room for 15");
  });

  it("lacks nothing because a node was drained or is unable to run it: neither counts for the coefficient", async () => {
    await beat("n1", "n2");
    await beatWith("process", "n3");
    const transform = { image: "none", cmd: ["true"], container: "required" as const };
    const parallelism_spec = { strategy: "COEFFICIENT" as const, coefficient: 2 };
    const pipeline = await waiting("counted", { files: 9, more: { transform, parallelism_spec } });
    const slots = async () => {
      const asked = ["w1", "w2", "w3", "w4", "w5"].map((worker) =>
        pipelineOf("counted").leases.take({ node: "n1", worker, max: 1, waitMs: 0 }),
      );
      return (await Promise.all(asked)).filter((leased) => leased.ok && leased.slot).length;
    };
    expect(await slots()).toBe(4);
    await nodes.setDraining("n2", 1);
    // What lets workers lease may be of a moment ago: what is told of the room is of one look at the nodes.
    expect(await reason(pipeline)).toBeNull();
    await query("counted", "DELETE FROM slots");
    await killPipeline("counted");
    expect(await slots()).toBe(2);
    expect(await reason(pipelineOf("counted"))).toBeNull();
  });

  it("says both if both are short, and nothing if less is left than would run", async () => {
    await beatWithin("n1", { running: 2, workers: 3 });
    const pipeline = await waiting("both", { workers: 5, files: 4 });
    await leaseSome(pipeline, { max: 1 });
    expect(await reason(pipeline)).toBe(
      "wants 5 workers, the fleet has room for 3; wants 5 at once, its nodes run 2",
    );
    const less = await waiting("less", { workers: 5, files: 2 });
    await leaseSome(less, { max: 1 });
    expect(await reason(less)).toBeNull();
  });

  it("says that other pipelines have its nodes' places", async () => {
    const work = [{ pipeline: "elsewhere", workers: 2, running: 2 }];
    await beatWithin("n1", { running: 2, workers: 256, work });
    const pipeline = await waiting("queues");
    await giveBack(pipeline, "w1");
    expect(await reason(pipeline)).toBe("its nodes are busy: they run 2 commands at once, of all pipelines");
    expect(await waitsFor(pipeline)).toBe("room");
    // What nodes said last is older than the lease.
    await leaseSome(pipeline, { max: 1 });
    expect(await waitsFor(pipeline)).toBeUndefined();
  });
});

describe("the trouble of a worker is forgotten", () => {
  it("when it leases something, and while another one works", async () => {
    await beat("n1");
    const pipeline = await waiting("works", { workers: 2 });
    await giveBack(pipeline, "w1");
    await pipeline.leases.renew(renewal("w1", "away"));
    await leaseSome(pipeline, { worker: "w2" });
    expect(await reason(pipeline)).toBeNull();
    await pipeline.leases.finish({ worker: "w2", outcomes: await returned("works") });
    expect(await reason(pipeline)).toContain("away");
    await leaseSome(pipeline, { worker: "w1" });
    await pipeline.leases.finish({ worker: "w1", outcomes: await returned("works") });
    expect(await reason(pipeline)).toBeNull();
  });

  it("with its slot: when it leaves, and when it is silent for too long", async () => {
    await beat("n1");
    const pipeline = await waiting("slot");
    for (const end of [
      () => pipeline.leases.renew({ worker: "w1", leases: [], leaving: true }),
      () => query("slot", "UPDATE slots SET until = 1"),
    ]) {
      await giveBack(pipeline, "w1");
      await pipeline.leases.renew(renewal("w1", "away"));
      expect(await reason(pipeline)).toContain("away");
      await end();
      expect(await reason(pipeline)).toBe("no live node has a worker for it yet");
    }
    // Without a slot there is nobody to have trouble.
    await pipeline.leases.renew(renewal("w1", "away"));
    expect(await reason(pipeline)).toBe("no live node has a worker for it yet");
  });
});

describe("a pipeline that has made no job", () => {
  it("says which of its inputs are empty, until all hold a file", async () => {
    await makeRepo("full", "bare");
    await commit("full", { a: "1" });
    const pipeline = await makePipeline({
      ...{ name: "empty", globs: { one: "/*", two: "/*", three: "/*" } },
      repos: { one: "full", two: "bare", three: "absent" },
    });
    const why = async () => {
      const found = await pipeline.lifecycle.inspect();
      return found.ok ? found.pipeline.reason : found.reason;
    };
    const [two, three] = [
      "input 'two' is empty (s3://master.bare holds no file)",
      "input 'three' is empty (s3://master.absent holds no file)",
    ];
    expect(await why()).toBe(`its first job waits for data: ${three}, ${two}`);
    await commit("bare", { b: "1" });
    await expect.poll(why).toBe(`its first job waits for data: ${three}`);
    await makeRepo("absent");
    await commit("absent", { c: "1" });
    await expect.poll(why).toBeNull();
  });
});

async function returned(name: string): Promise<{ lease: string; state: "returned" }[]> {
  const rows = await query<{ lease: string }>(name, "SELECT lease FROM attempts WHERE lease IS NOT NULL");
  return rows.map(({ lease }) => ({ lease, state: "returned" }));
}

describe("a clock that was set back", () => {
  /** From now on the next commit of the branch is later than this, as if its clock had been ahead before. */
  async function clockAhead(repo: string, ms: number): Promise<void> {
    const address = { repo, branch: "master" };
    await runInDurableObject(env.BRANCH.getByName(bucketName(address)), (_, { storage: { sql } }) => {
      sql.exec("INSERT OR REPLACE INTO clock (one, promised) VALUES (1, ?)", Date.now() + ms);
    });
    await killBranch(address);
  }

  it("is the reason why a pipeline waits, until the other input's clock has passed the commit", async () => {
    await makeRepo("ahead", "behind");
    const pipeline = await makePipeline({ name: "back", globs: { ahead: "/*", behind: "/*" } });
    for (const repo of ["ahead", "behind"]) await commit(repo, { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await clockAhead("ahead", 3_600_000);
    await commit("ahead", { b: "1" });
    const reason = async (): Promise<string | null> => {
      const found = await pipelineOf("back").lifecycle.inspect();
      return found.ok ? found.pipeline.reason : null;
    };
    await expect
      .poll(reason)
      .toMatch(/^a clock was set back: the commit of \S+Z on s3:\/\/master\.ahead .* s3:\/\/master\.behind /);
    expect(await allJobs(pipelineOf("back"))).toHaveLength(1);
    await clockAhead("behind", 7_200_000);
    await workUntil(pipelineOf("back"), { jobs: 2 });
    await expect.poll(reason).toBeNull();
  });

  it("is the reason also if the input that waits is behind by little, but stands still", async () => {
    await makeRepo("little-ahead", "little-behind");
    const globs = { "little-ahead": "/*", "little-behind": "/*" };
    const pipeline = await makePipeline({ name: "little", globs });
    for (const repo of ["little-ahead", "little-behind"]) await commit(repo, { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    // As two branches are that were written to shortly before the clock was set.
    await clockAhead("little-behind", 3_600_000);
    await clockAhead("little-ahead", 3_600_500);
    await commit("little-ahead", { b: "1" });
    const reason = async (): Promise<string | null> => {
      const found = await pipelineOf("little").lifecycle.inspect();
      return found.ok ? found.pipeline.reason : null;
    };
    await expect.poll(reason).toMatch(/^a clock was set back: .* s3:\/\/master\.little-behind /);
    await clockAhead("little-behind", 7_200_000);
    await workUntil(pipelineOf("little"), { jobs: 2 });
    await expect.poll(reason).toBeNull();
  });
});
