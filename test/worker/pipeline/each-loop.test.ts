// @module-tag rest
import { env, runDurableObjectAlarm } from "cloudflare:test";
import { beforeAll, expect } from "vitest";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { exec, type Scenario, testLoops, type Work } from "../objects/loop-tests.ts";
import { shortenPauses } from "./faults.ts";
import { killPipeline } from "./kill.ts";
import {
  branchOf,
  commit,
  echo,
  leaseSome,
  makePipeline,
  makeRepo,
  outcomeOf,
  pipelineOf,
  type SpecOptions,
  workUntil,
} from "./support.ts";

const LONG = { timeout: 20_000 };

beforeAll(shortenPauses);

let names = 0;

/** A pipeline of a repo `<name>-in`, each of whose files is a datum. */
async function fresh(more: SpecOptions["more"] = {}) {
  const name = `loop-${++names}`;
  const input = `${name}-in`;
  await makeRepo(input);
  const options = { name, globs: { [input]: "/*" }, more };
  return { name, input, options, pipeline: await makePipeline(options) };
}

const stub = (name: string) => env.PIPELINE.getByName(name);
const isEmpty = (name: string, text: string) => async () => (await exec(stub(name), text)).length === 0;
const hasSome = (name: string, text: string) => async () => (await exec(stub(name), text)).length > 0;
const isIdle = async (name: string, loop: string) => {
  const found = (await pipelineOf(name).admin.loops())?.loops.find((each) => each.name === loop);
  return found?.state === "idle";
};

/** A commit, and the job that it makes: the branch wakes the pipeline after it has answered. */
async function commitJob({ name, input }: { name: string; input: string }): Promise<void> {
  await commit(input, { a: "1" });
  await expect.poll(hasSome(name, "SELECT 1 FROM jobs"), LONG).toBe(true);
}

/** A job with one datum, which a worker has leased. */
async function atWork(more?: SpecOptions["more"]) {
  const world = await fresh(more);
  await commit(world.input, { a: "1" });
  const { datums } = await leaseSome(world.pipeline);
  const [datum] = datums;
  if (!datum) throw new Error("nothing was leased");
  return { ...world, datum };
}

/** What its worker reports of the datum. */
async function finish(pipeline: PipelineApi, { name, datum }: Awaited<ReturnType<typeof atWork>>) {
  const output = { repo: name, branch: "master" };
  const outcome = await outcomeOf(datum, { command: echo, output });
  return () => pipeline.leases.finish({ worker: "w1", outcomes: [outcome] });
}

const EXPIRE = "UPDATE attempts SET leaseUntil = 1 WHERE leaseUntil IS NOT NULL";

const SCENARIOS: readonly Scenario[] = [
  {
    loop: "state",
    what: "it is stopped",
    // Whoever stops it wakes the loop, and waits for it.
    wokenBy: [],
    async prepare(): Promise<Work> {
      const { name, pipeline } = await fresh();
      return {
        name,
        begin: () => pipeline.lifecycle.stop(),
        again: () => pipelineOf(name).lifecycle.stop(),
        isDone: hasSome(name, "SELECT 1 FROM pipeline WHERE state = 'stopped'"),
      };
    },
  },
  {
    loop: "inputs",
    what: "there is a commit",
    // The branch that calls waits for no loop; its wake-up wakes this one.
    wokenBy: [],
    async prepare() {
      const { name, input } = await fresh();
      return {
        name,
        begin: () => commitJob({ name, input }),
        isDone: async () => (await hasSome(name, "SELECT 1 FROM jobs")()) && (await isIdle(name, "inputs")),
      };
    },
  },
  {
    loop: "fill",
    what: "a job's datums are to be found",
    wokenBy: ["JobStore.insert"],
    async prepare() {
      const { name, input } = await fresh();
      return {
        name,
        begin: () => commitJob({ name, input }),
        isDone: hasSome(name, "SELECT 1 FROM jobs WHERE filled = 1"),
      };
    },
  },
  {
    loop: "jobs",
    what: "the last datum has ended",
    wokenBy: ["JobStore.count"],
    async prepare() {
      const world = await atWork();
      return {
        name: world.name,
        begin: await finish(world.pipeline, world),
        isDone: hasSome(world.name, "SELECT 1 FROM jobs WHERE state = 'success'"),
      };
    },
  },
  {
    loop: "callOff",
    what: "a job ends early",
    wokenBy: ["JobStore.end"],
    async prepare() {
      const { name, pipeline, datum } = await atWork();
      return {
        name,
        begin: () => pipeline.jobs.stop(datum.job),
        again: () => pipelineOf(name).jobs.stop(datum.job),
        isDone: isEmpty(name, "SELECT 1 FROM jobs WHERE reaping = 1 OR state <> 'killed'"),
      };
    },
  },
  {
    loop: "leases",
    what: "a worker says nothing more",
    wokenBy: ["AttemptStore.run"],
    async prepare() {
      const { name, input, pipeline } = await fresh();
      await commit(input, { a: "1" });
      return {
        name,
        begin: () => leaseSome(pipeline),
        passes: EXPIRE,
        isDone: isEmpty(name, "SELECT 1 FROM attempts WHERE leaseUntil IS NOT NULL"),
      };
    },
  },
  {
    loop: "lostUploads",
    what: "leases ended without a result",
    wokenBy: ["LostLeaseStore.ofAttempt"],
    async prepare() {
      const { name, pipeline, datum } = await atWork();
      return {
        name,
        begin: () =>
          pipeline.leases.finish({ worker: "w1", outcomes: [{ lease: datum.lease, state: "returned" }] }),
        isDone: isEmpty(name, "SELECT 1 FROM lost_leases"),
      };
    },
  },
  {
    loop: "jobTime",
    what: "a job is to end after its time",
    // The alarm that watches over what goes before sees to it, too.
    wokenBy: [],
    async prepare() {
      const { name, input } = await fresh({ jobTimeout: "1h" });
      const hasTurn = hasSome(name, "SELECT 1 FROM jobs WHERE turnAt IS NOT NULL");
      return {
        name,
        async begin() {
          await commit(input, { a: "1" });
          await expect.poll(hasTurn, LONG).toBe(true);
          await exec(stub(name), "UPDATE jobs SET turnAt = 1");
          await runDurableObjectAlarm(stub(name));
        },
        isDone: hasSome(name, "SELECT 1 FROM jobs WHERE state = 'failure'"),
      };
    },
  },
  {
    loop: "erased",
    what: "an output version is erased",
    wokenBy: ["ErasureStore.addDue"],
    async prepare() {
      const { name, input, pipeline } = await fresh();
      await commit(input, { a: "1" });
      await workUntil(pipeline, { jobs: 1 });
      const output = branchOf({ repo: name, branch: "master" });
      const file = await output.files.read({ path: "a.out" });
      if (!file.ok) throw new Error(file.reason);
      return {
        name,
        async begin() {
          await output.erasures.erase({ versions: [{ path: "a.out", version: file.commit }] });
          await expect.poll(hasSome(name, "SELECT 1 FROM erasures_heard"), LONG).toBe(true);
        },
        isDone: hasSome(name, "SELECT 1 FROM erasures_heard WHERE due = 0"),
      };
    },
  },
  {
    loop: "trim",
    what: "a job has ended",
    wokenBy: ["JobStore.end"],
    async prepare() {
      const { name, input, pipeline } = await fresh();
      await commit(input, { a: "1" });
      await workUntil(pipeline, { jobs: 1 });
      const { datums } = await commit(input, { a: "2" }).then(() => leaseSome(pipeline));
      const [datum] = datums;
      if (!datum) throw new Error("nothing was leased");
      return {
        name,
        begin: await finish(pipeline, { name, datum } as never),
        isDone: isEmpty(name, "SELECT 1 FROM elements WHERE died IS NOT NULL"),
      };
    },
  },
  {
    loop: "outbox",
    what: "the catalogue is to hear of a job",
    // Each change of a job wakes it, so that the next one makes good for one that was lost.
    wokenBy: [],
    async prepare() {
      const { name, input } = await fresh();
      return {
        name,
        begin: () => commitJob({ name, input }),
        isDone: async () =>
          (await hasSome(name, "SELECT 1 FROM jobs WHERE filled = 1")()) && (await isIdle(name, "outbox")),
      };
    },
  },
  {
    loop: "lowWaterMarks",
    what: "a job has ended",
    // The alarm sees to it, whatever it was set for.
    wokenBy: [],
    async prepare() {
      const world = await atWork();
      const report = await finish(world.pipeline, world);
      const isEnded = hasSome(world.name, "SELECT 1 FROM jobs WHERE state = 'success'");
      return {
        name: world.name,
        async begin() {
          await report();
          await expect.poll(isEnded, LONG).toBe(true);
          await runDurableObjectAlarm(stub(world.name));
        },
        isDone: () => isIdle(world.name, "lowWaterMarks"),
      };
    },
  },
];

testLoops(
  {
    kind: "pipeline",
    stub,
    loops: (name) => pipelineOf(name).admin.loops(),
    kill: killPipeline,
  },
  SCENARIOS,
);
