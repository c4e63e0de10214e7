// @module-tag rest
import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, vi } from "vitest";
import type { Task } from "../../../protocol/runner.ts";
import { feed } from "../../../worker/branch/calls/feed.ts";
import { output as outputCalls } from "../../../worker/branch/calls/output.ts";
import { PipelineTable } from "../../../worker/catalogue/pipelines.ts";
import { ProposalTable } from "../../../worker/catalogue/proposals.ts";
import { Engine } from "../../../worker/objects/engine.ts";
import { Loop } from "../../../worker/objects/loop.ts";
import { Transactions } from "../../../worker/objects/transaction.ts";
import { wakeUps } from "../../../worker/pipeline/calls/lifecycle.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { exec, type Scenario, testLoops, type Work } from "../objects/loop-tests.ts";
import { shortenPauses } from "./faults.ts";
import { killPipeline } from "./kill.ts";
import {
  branchOf,
  type Command,
  commit,
  echo,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  outcomeOf,
  pipelineOf,
  type SpecOptions,
  specOf,
  taskOutcome,
  workUntil,
} from "./support.ts";
import { leaseTasks } from "./tasks.ts";

const LONG = { timeout: 20_000 };

beforeEach(() => {
  shortenPauses();
  hearCalls();
});

/** What calls wake themselves goes past the transactions. Here it goes through one, so that it is heard of and swallowed, too. */
function hearCalls(): void {
  const { wake } = Engine.prototype;
  vi.spyOn(Engine.prototype, "wake").mockImplementation(function (this: Engine, loop) {
    // Whoever resumes an object wakes what is due anyway.
    if (/ Engine\.resume /.test(new Error().stack ?? "")) return wake.call(this, loop);
    let resting = Promise.resolve();
    const through = new Transactions({
      storage: { transactionSync: (work) => work(), async sync() {} },
      forget() {},
    });
    through.listener = () => {
      resting = wake.call(this, loop);
    };
    through.wake(loop);
    return resting;
  });
}

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
const standing = async (name: string, loop: string) =>
  (await pipelineOf(name).admin.loops())?.loops.find((each) => each.name === loop);
const isIdle = async (name: string, loop: string) => (await standing(name, loop))?.state === "idle";
/** Waits until a loop is at rest, whether it has done its work or was not woken. */
async function rests(name: string, loop: string): Promise<void> {
  await expect.poll(async () => (await standing(name, loop))?.state === "running", LONG).toBe(false);
}
const alarmOf = (name: string) => runInDurableObject(stub(name), (_, { storage }) => storage.getAlarm());

/** The alarm rings now. */
async function ring(name: string): Promise<void> {
  await runInDurableObject(stub(name), (_, { storage }) => storage.setAlarm(Date.now() + 60_000));
  await runDurableObjectAlarm(stub(name));
}

/** Input branches have their marks, and get the next one at once: an alarm has rung since they got the last. */
async function settleMarks(name: string): Promise<void> {
  await ring(name);
  await expect.poll(() => isIdle(name, "lowWaterMarks"), LONG).toBe(true);
  await ring(name);
}

type Method = (...args: unknown[]) => unknown;

interface Point {
  /** What has the method. */
  readonly of: object;
  readonly method: string;
}

interface Pause {
  readonly at: Point;
  /** Which call; absent: any. */
  readonly which?: (self: unknown, first: unknown) => boolean;
  /** What the test does meanwhile. */
  readonly look: () => Promise<unknown>;
}

/** Does what pauses at each of these calls, one after the other. */
async function paused(work: () => Promise<unknown>, pauses: readonly Pause[]): Promise<void> {
  let [begun, ended] = [0, 0];
  const spies = [...new Set(pauses.map(({ at }) => at))].map((at) => {
    const methods = at.of as Record<string, Method>;
    const original = methods[at.method] as Method;
    return vi.spyOn(methods, at.method).mockImplementation(async function (this: unknown, ...args) {
      const pause = pauses[begun];
      if (pause?.at === at && (pause.which?.(this, args[0]) ?? true)) {
        const mine = ++begun;
        while (ended < mine) await scheduler.wait(1);
      }
      return await original.apply(this, args);
    });
  });
  try {
    const working = work();
    for (const [index, { look }] of pauses.entries()) {
      await expect.poll(() => begun, LONG).toBeGreaterThan(index);
      await look();
      ended++;
    }
    await working;
  } finally {
    ended = pauses.length;
    for (const spy of spies) spy.mockRestore();
  }
}

const STEP: Point = { of: Loop.prototype, method: "takeStep" };
const TELLING_PIPELINE: Point = { of: PipelineTable.prototype, method: "record" };
const SETTING_BACK: Point = { of: PipelineTable.prototype, method: "setBack" };
const PROPOSING: Point = { of: ProposalTable.prototype, method: "add" };
const ASKING_FOR_START: Point = { of: feed, method: "position" };
const COMMITTING: Point = { of: outputCalls, method: "commit" };
/** Between two slices of long work (objects/turns.ts). */
const YIELDING: Point = { of: scheduler, method: "wait" };

const stepOf = (name: string, loop: string) => (self: unknown) =>
  self instanceof Loop && self.object === `pipeline ${name}` && self.name === loop;
const isCalled = (name: string) => (_: unknown, first: unknown) => (first as { name: string }).name === name;

/** A commit, and the job that it makes: the branch wakes the pipeline after it has answered. */
async function commitJob({ name, input }: { name: string; input: string }): Promise<void> {
  await commit(input, { a: "1" });
  await expect.poll(hasSome(name, "SELECT 1 FROM jobs"), LONG).toBe(true);
}

async function uidOf(name: string): Promise<string> {
  const [row] = await exec(stub(name), "SELECT uid FROM pipeline");
  return (row as { uid: string }).uid;
}

/** A commit of which the pipeline has not heard; returns what tells it. The branch, whose outbox wakes, too, is done with it. */
async function unheard(name: string, files: Readonly<Record<string, string | null>>) {
  const uid = await uidOf(name);
  const ringing = vi.spyOn(wakeUps, "ring").mockResolvedValue(undefined);
  await commit(`${name}-in`, files);
  const rang = () => ringing.mock.calls.some(([, call]) => call.uid === uid);
  await expect.poll(rang, LONG).toBe(true);
  ringing.mockRestore();
  return () => pipelineOf(name).wakeUps.ring({ uid });
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

/** A job whose datums have ended, while what they wrote to one path is to be merged. */
async function toMerge() {
  const world = await fresh();
  const { name, input, pipeline } = world;
  const output = { repo: name, branch: "master" };
  await commit(input, { a: "1", b: "1" });
  const { datums } = await leaseSome(pipeline);
  const command = ({ datum }: { datum: string }) => ({ same: datum });
  const outcomes = await Promise.all(datums.map((datum) => outcomeOf(datum, { command, output })));
  await pipeline.leases.finish({ worker: "w1", outcomes });
  await expect.poll(hasSome(name, "SELECT 1 FROM tasks"), LONG).toBe(true);
  return { ...world, output };
}

/** The same, when a worker has leased the merge. */
async function atMerge(): Promise<Awaited<ReturnType<typeof toMerge>> & { task: Task }> {
  const world = await toMerge();
  const { tasks } = await leaseTasks(world.pipeline);
  const [task] = tasks;
  if (!task) throw new Error("no task was leased");
  return { ...world, task };
}

/** One more job, which waits for the one before. */
async function nextJob({ name, input }: { name: string; input: string }): Promise<void> {
  await commit(input, { z: "1" });
  await expect.poll(hasSome(name, "SELECT 1 FROM jobs WHERE n = 2 AND filled = 1"), LONG).toBe(true);
}

const TURN_OF_NEXT = "SELECT 1 FROM jobs WHERE n = 2 AND tookOver = 1";
const UNTOLD = "SELECT 1 FROM outbox";

/** Whether the outbox, once it is at rest, has told all that there is. */
async function isTold(name: string): Promise<boolean> {
  await rests(name, "outbox");
  return await isEmpty(name, UNTOLD)();
}

/** What its worker reports of the datum. */
async function finish(
  pipeline: PipelineApi,
  { name, datum }: Awaited<ReturnType<typeof atWork>>,
  command: Command = echo,
) {
  const output = { repo: name, branch: "master" };
  const outcome = await outcomeOf(datum, { command, output });
  return () => pipeline.leases.finish({ worker: "w1", outcomes: [outcome] });
}

const EXPIRE =
  "UPDATE attempts SET leaseUntil = 1 WHERE leaseUntil IS NOT NULL; UPDATE lease_calls SET due = 1";

const SCENARIOS: readonly Scenario[] = [
  {
    loop: "state",
    what: "it is stopped",
    wokenBy: ["changeState"],
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
    wokenBy: ["ring"],
    async prepare() {
      const { name, input } = await fresh();
      const heard = hasSome(name, "SELECT 1 FROM pipeline WHERE pullDue = 1 UNION ALL SELECT 1 FROM jobs");
      return {
        name,
        async begin() {
          await commit(input, { a: "1" });
          await expect.poll(heard, LONG).toBe(true);
        },
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
      const { name, pipeline } = world;
      return {
        name,
        begin: await finish(pipeline, world),
        // The worker had no answer, and reports once more.
        again: await finish(pipelineOf(name), world),
        isDone: hasSome(name, "SELECT 1 FROM jobs WHERE state = 'success'"),
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
        isDone: isEmpty(name, "SELECT 1 FROM ended_elements"),
      };
    },
  },
  {
    loop: "outbox",
    what: "the catalogue is to hear of a job",
    // Each change of a job wakes it, so that the next one makes good for one that was lost.
    wokenBy: [],
    async prepare() {
      const { name } = await fresh();
      const tell = await unheard(name, { a: "1" });
      return {
        name,
        async begin() {
          await tell();
          await expect.poll(hasSome(name, "SELECT 1 FROM jobs"), LONG).toBe(true);
        },
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
  {
    loop: "state",
    what: "an erased input version makes a job",
    wokenBy: ["PipelineStore.setNewVersion"],
    wakeOnly: true,
    async prepare() {
      const { name, input } = await fresh();
      const version = await commit(input, { a: "1" });
      await commit(input, { a: "2" });
      await expect.poll(hasSome(name, "SELECT 1 FROM jobs WHERE n = 2"), LONG).toBe(true);
      return {
        name,
        async begin() {
          await master(input).erasures.erase({ versions: [{ path: "a", version }] });
          await expect.poll(hasSome(name, "SELECT 1 FROM jobs WHERE n = 3"), LONG).toBe(true);
        },
        isDone: isEmpty(name, "SELECT 1 FROM pipeline WHERE catalogueVersion < version"),
      };
    },
  },
  {
    loop: "state",
    what: "other inputs are proposed, should the call die",
    wokenBy: ["propose"],
    wakeOnly: true,
    async prepare() {
      const { name, options, pipeline } = await fresh();
      const repo = { name: `${name}-other` };
      await makeRepo(repo.name);
      const ID = await commit(repo.name, { a: "1" });
      const spec = specOf({ ...options, more: { inputs: [{ repo, glob: "/*", from: { repo, ID } }] } });
      let alarm: number | null = null;
      const look = async () => {
        alarm = await alarmOf(name);
      };
      return {
        name,
        begin: () =>
          paused(
            () => pipeline.specification.update({ spec, reprocess: false }),
            // The alarm that watched over what the call did first is gone by then.
            [
              { at: ASKING_FOR_START, look: () => ring(name) },
              { at: PROPOSING, look },
            ],
          ),
        isDone: async () => alarm !== null,
      };
    },
  },
  {
    loop: "jobs",
    what: "a job's datums are known",
    wokenBy: ["JobStore.start"],
    wakeOnly: true,
    async prepare() {
      const { name, input } = await fresh();
      return {
        name,
        begin: () => commitJob({ name, input }),
        isDone: hasSome(name, "SELECT 1 FROM jobs WHERE tookOver = 1"),
      };
    },
  },
  {
    loop: "jobs",
    what: "the datums of the job before are called off",
    wokenBy: ["JobStore.setCalledOff"],
    wakeOnly: true,
    async prepare() {
      const world = await atWork();
      await nextJob(world);
      const { name, pipeline, datum } = world;
      return { name, begin: () => pipeline.jobs.stop(datum.job), isDone: hasSome(name, TURN_OF_NEXT) };
    },
  },
  {
    loop: "jobs",
    what: "the job before ends, none of whose datums is open",
    wokenBy: ["JobStore.end"],
    wakeOnly: true,
    async prepare() {
      const world = await toMerge();
      await nextJob(world);
      const { name, pipeline } = world;
      const [job] = await exec(stub(name), "SELECT id FROM jobs WHERE n = 1");
      const { id } = job as { id: string };
      return { name, begin: () => pipeline.jobs.stop(id), isDone: hasSome(name, TURN_OF_NEXT) };
    },
  },
  {
    loop: "jobs",
    what: "the last merge is done",
    wokenBy: ["TaskStore.remove"],
    wakeOnly: true,
    async prepare() {
      const { name, pipeline, task, output } = await atMerge();
      const outcome = await taskOutcome(task, { output });
      return {
        name,
        begin: () => pipeline.leases.finish({ worker: "w1", outcomes: [outcome] }),
        isDone: hasSome(name, "SELECT 1 FROM jobs WHERE state = 'success'"),
      };
    },
  },
  {
    loop: "leases",
    what: "a worker says nothing more of a merge",
    wokenBy: ["TaskStore.run"],
    wakeOnly: true,
    async prepare() {
      const { name, pipeline } = await toMerge();
      return {
        name,
        begin: () => leaseTasks(pipeline),
        passes: EXPIRE.replace("attempts", "tasks"),
        isDone: isEmpty(name, "SELECT 1 FROM tasks WHERE leaseUntil IS NOT NULL"),
      };
    },
  },
  {
    loop: "lostUploads",
    what: "the lease of a merge ended without a result",
    wokenBy: ["LostLeaseStore.ofTask"],
    wakeOnly: true,
    async prepare() {
      const { name, pipeline, task } = await atMerge();
      return {
        name,
        begin: () =>
          pipeline.leases.finish({ worker: "w1", outcomes: [{ lease: task.lease, state: "returned" }] }),
        isDone: isEmpty(name, "SELECT 1 FROM lost_leases"),
      };
    },
  },
  {
    loop: "jobTime",
    what: "a job has less time than an alarm waits at most",
    wokenBy: ["JobStore.beginTurn"],
    wakeOnly: true,
    async prepare() {
      const { name, input } = await fresh({ jobTimeout: "2s" });
      await settleMarks(name);
      const hasTurn = hasSome(name, "SELECT 1 FROM jobs WHERE turnAt IS NOT NULL");
      return {
        name,
        async begin() {
          await commitJob({ name, input });
          await expect.poll(hasTurn, LONG).toBe(true);
        },
        async isDone() {
          const alarm = await alarmOf(name);
          const due = (await standing(name, "jobTime"))?.due ?? null;
          return due === null || (alarm !== null && alarm <= due);
        },
      };
    },
  },
  {
    loop: "jobTime",
    what: "an update gives a job less time than it had already, however long the catalogue takes",
    wokenBy: ["repeat"],
    wakeOnly: true,
    async prepare() {
      const { name, options, pipeline } = await atWork();
      await exec(stub(name), "UPDATE jobs SET turnAt = 1");
      const spec = specOf({ ...options, more: { jobTimeout: "1h" } });
      let isEnded = false;
      const look = async () => {
        await rests(name, "jobTime");
        isEnded = await hasSome(name, "SELECT 1 FROM jobs WHERE state = 'failure'")();
      };
      return {
        name,
        begin: () =>
          paused(
            () => pipeline.specification.update({ spec, reprocess: false }),
            [{ at: TELLING_PIPELINE, which: isCalled(name), look }],
          ),
        isDone: async () => isEnded,
      };
    },
  },
  {
    loop: "trim",
    what: "its jobs ended while it was being stopped",
    wokenBy: ["rest"],
    wakeOnly: true,
    async prepare() {
      const { name, input, pipeline } = await fresh();
      await commit(input, { a: "1" });
      await workUntil(pipeline, { jobs: 1 });
      await commit(input, { a: "2" });
      await leaseSome(pipeline);
      return {
        name,
        begin: () => pipeline.lifecycle.stop(),
        isDone: isEmpty(name, "SELECT 1 FROM ended_elements"),
      };
    },
  },
  {
    loop: "trim",
    what: "the output branch keeps less",
    wokenBy: ["PipelineStore.addOutputNews"],
    wakeOnly: true,
    async prepare() {
      const { name, pipeline } = await fresh();
      const uid = await uidOf(name);
      return {
        name,
        begin: () => pipeline.wakeUps.outputKept({ uid }),
        isDone: isEmpty(name, "SELECT 1 FROM pipeline WHERE outputDue > 0"),
      };
    },
  },
  {
    loop: "outbox",
    what: "a job is made and then filled, in which nothing is to run",
    wokenBy: ["JobStore.insert", "JobStore.start"],
    wakeOnly: true,
    async prepare() {
      const { name, input, pipeline } = await fresh();
      await commit(input, { a: "1" });
      await workUntil(pipeline, { jobs: 1 });
      const tell = await unheard(name, { a: null });
      const told: boolean[] = [];
      const look = async () => told.push(await isTold(name));
      return {
        name,
        begin: () =>
          paused(tell, [
            { at: STEP, which: stepOf(name, "fill"), look },
            { at: STEP, which: stepOf(name, "jobs"), look },
          ]),
        isDone: async () => !told.includes(false),
      };
    },
  },
  {
    loop: "outbox",
    what: "a job has its turn long after it was filled",
    wokenBy: ["JobStore.beginTurn"],
    wakeOnly: true,
    async prepare() {
      const { name } = await fresh();
      const tell = await unheard(name, { a: "1" });
      const look = () => rests(name, "outbox");
      return {
        name,
        begin: () => paused(tell, [{ at: STEP, which: stepOf(name, "jobs"), look }]),
        isDone: isEmpty(name, UNTOLD),
      };
    },
  },
  {
    loop: "outbox",
    what: "one of two datums has ended",
    wokenBy: ["JobStore.count"],
    wakeOnly: true,
    async prepare() {
      const { name, input, pipeline } = await fresh();
      await commit(input, { a: "1", b: "1" });
      const [datum] = (await leaseSome(pipeline)).datums;
      return {
        name,
        begin: await finish(pipeline, { name, datum } as never),
        isDone: isEmpty(name, UNTOLD),
      };
    },
  },
  {
    loop: "outbox",
    what: "the only job is stopped",
    wokenBy: ["JobStore.end"],
    wakeOnly: true,
    async prepare() {
      const { name, pipeline, datum } = await atWork();
      return { name, begin: () => pipeline.jobs.stop(datum.job), isDone: isEmpty(name, UNTOLD) };
    },
  },
  {
    loop: "outbox",
    what: "a job has told of its bad datums, and its output takes long to commit",
    wokenBy: ["JobStore.setErrorsCommit"],
    wakeOnly: true,
    async prepare() {
      const { name, input, pipeline } = await fresh({ onDatumFailure: "skip", datumTries: 1 });
      const output = { repo: name, branch: "master" };
      await commit(input, { a: "1", b: "1" });
      const { datums } = await leaseSome(pipeline);
      const outcomes = await Promise.all(
        datums.map((datum, index) =>
          outcomeOf(datum, { command: index === 0 ? () => "fail" : echo, output }),
        ),
      );
      let told = false;
      const look = async () => {
        told = await isTold(name);
      };
      return {
        name,
        begin: () =>
          paused(
            () => pipeline.leases.finish({ worker: "w1", outcomes }),
            // That of the errors branch, which begins when all is told that was before, and that of the output.
            [
              { at: COMMITTING, look },
              { at: COMMITTING, look },
            ],
          ),
        isDone: async () => told,
      };
    },
  },
  {
    loop: "outbox",
    what: "a large commit is noted slice by slice before it is sent out, with a pause between",
    wokenBy: ["JobStore.setCommitted", "JobStore.setEgressing"],
    wakeOnly: true,
    async prepare() {
      const world = await atWork({ egress: { URL: "s3://bucket/dir" } });
      const { name, pipeline } = world;
      const files = Array.from({ length: 501 }, (_, index) => [`${index}`, "1"] as const);
      const report = await finish(pipeline, world, () => Object.fromEntries(files));
      let told = false;
      const look = async () => {
        told = await isTold(name);
      };
      return {
        name,
        async begin() {
          const noted = vi.spyOn(JobStore.prototype, "setCommitted");
          const which = (_: unknown, waitMs: unknown) => waitMs === 0 && noted.mock.calls.length > 0;
          await paused(report, [
            { at: COMMITTING, look: () => rests(name, "outbox") },
            { at: YIELDING, which, look },
          ]);
          noted.mockRestore();
        },
        isDone: async () => told && (await isTold(name)),
      };
    },
  },
  {
    loop: "outbox",
    what: "the catalogue is told again, and takes long",
    wokenBy: ["JobStore.setUnflushed"],
    wakeOnly: true,
    async prepare() {
      const { name, pipeline } = await fresh();
      let told = false;
      const look = async () => {
        told = await isTold(name);
      };
      return {
        name,
        begin: () =>
          paused(() => pipeline.admin.announce(), [{ at: SETTING_BACK, which: isCalled(name), look }]),
        isDone: async () => told,
      };
    },
  },
  {
    loop: "lowWaterMarks",
    what: "the only job is stopped",
    wokenBy: ["JobStore.end"],
    wakeOnly: true,
    async prepare() {
      const { name, pipeline, datum } = await atWork();
      await settleMarks(name);
      return {
        name,
        begin: () => pipeline.jobs.stop(datum.job),
        isDone: () => isIdle(name, "lowWaterMarks"),
      };
    },
  },
  {
    loop: "lowWaterMarks",
    what: "the inputs are read further",
    wokenBy: ["pull"],
    wakeOnly: true,
    async prepare() {
      const { name, input } = await fresh();
      await settleMarks(name);
      return { name, begin: () => commitJob({ name, input }), isDone: () => isIdle(name, "lowWaterMarks") };
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

/** Places whose wake of a loop is never all that has its work done, and why. */
export const NEVER_ALONE: Readonly<Record<string, string>> = {
  announce:
    "the outbox is woken in the transaction that has the state told again: the alarm that watches over the one looks after the other, just as late",
};
