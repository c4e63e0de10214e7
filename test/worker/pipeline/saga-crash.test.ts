import { env } from "cloudflare:test";
import { beforeAll, describe, expect, it } from "vitest";
import { PipelineTable } from "../../../worker/catalogue/pipelines.ts";
import { AttemptStore } from "../../../worker/pipeline/attempts/attempt-store.ts";
import { DatumStore } from "../../../worker/pipeline/inputs/datum-store.ts";
import { ElementStore } from "../../../worker/pipeline/inputs/element-store.ts";
import { SourceStore } from "../../../worker/pipeline/inputs/source-store.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { PipelineStore } from "../../../worker/pipeline/lifecycle/pipeline-store.ts";
import { PublishedStore } from "../../../worker/pipeline/output/published-store.ts";
import { sampled } from "../../support/suite.ts";
import { type FaultPoint, insist, killedAt, shortenPauses } from "./faults.ts";
import {
  allJobs,
  commit,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  pathsOf,
  pipelineOf,
  specOf,
  workUntil,
} from "./support.ts";

const JOBS_END: FaultPoint[] = [
  { at: "the state is written", of: PipelineStore.prototype, method: "setState", when: "before" },
  { at: "the first job is ended", of: JobStore.prototype, method: "end", when: "before" },
  { at: "the second job is ended", of: JobStore.prototype, method: "end", when: "before", call: 2 },
  { at: "attempts are called off", of: AttemptStore.prototype, method: "callOff", when: "before" },
  { at: "they have been called off", of: JobStore.prototype, method: "setCalledOff", when: "after" },
];
const TOLD: FaultPoint[] = [
  { at: "the catalogue is told", of: PipelineTable.prototype, method: "record", when: "before" },
  { at: "the catalogue has been told", of: PipelineTable.prototype, method: "record", when: "after" },
  {
    at: "that it was told is written",
    of: PipelineStore.prototype,
    method: "setCatalogueVersion",
    when: "before",
  },
];
const STOP: FaultPoint[] = [
  ...JOBS_END,
  { at: "inputs are let go of", of: SourceStore.prototype, method: "setUnsubscribed", when: "before" },
  ...TOLD,
];
const START: FaultPoint[] = [
  { at: "the state is written", of: PipelineStore.prototype, method: "setState", when: "before" },
  { at: "the input is followed", of: SourceStore.prototype, method: "subscribed", when: "before" },
  { at: "the job is made", of: JobStore.prototype, method: "insert", when: "before" },
  { at: "the old set is forgotten", of: DatumStore.prototype, method: "killSome", when: "before" },
  { at: "its elements are forgotten", of: ElementStore.prototype, method: "killSome", when: "after" },
  { at: "datums are born", of: DatumStore.prototype, method: "bear", when: "after" },
  ...TOLD,
];
const UPDATE: FaultPoint[] = [
  {
    at: "the next version is written",
    of: PipelineStore.prototype,
    method: "setNextRevision",
    when: "after",
  },
  ...JOBS_END,
  { at: "the version changes", of: PipelineStore.prototype, method: "revise", when: "before" },
  { at: "the sources change", of: SourceStore.prototype, method: "replace", when: "after" },
  { at: "the new input is followed", of: SourceStore.prototype, method: "subscribed", when: "before" },
  ...START.slice(2),
];
const JOB_STOP: FaultPoint[] = [
  { at: "the job is ended", of: JobStore.prototype, method: "end", when: "before" },
  ...JOBS_END.slice(3),
];

beforeAll(shortenPauses);

let pipelines = 0;

/** A pipeline with a finished job of one file, and two more of which the first runs. */
async function busyPipeline() {
  const name = `crash-${++pipelines}`;
  const input = `${name}-in`;
  await makeRepo(input, `${name}-more`);
  const pipeline = await makePipeline({ name, globs: { [input]: "/*" } });
  await commit(input, { a: "1" });
  await workUntil(pipeline, { jobs: 1 });
  await commit(input, { b: "1" });
  await commit(input, { c: "1" });
  await expect.poll(async () => (await allJobs(pipeline)).length).toBe(3);
  await leaseSome(pipeline, { max: 1 });
  return { name, input, more: `${name}-more` };
}

async function restsAs(name: string, state: string): Promise<void> {
  await expect
    .poll(async () => insist(async () => pipelineOf(name).lifecycle.inspect()))
    .toMatchObject({ ok: true, pipeline: { state } });
  const row = (): Promise<string | undefined> =>
    new PipelineTable(env.DB).list().then((rows) => rows.find((each) => each.name === name)?.state);
  await expect.poll(row).toBe(state);
}

describe("a pipeline that is killed while it is being stopped", () => {
  for (const [fault, options] of sampled(STOP, { every: 8 }))
    it(`when ${fault.at}, is stopped all the same`, options, async () => {
      const { name, input } = await busyPipeline();
      await killedAt(name, { point: fault, work: () => pipelineOf(name).lifecycle.stop() });
      // Killed before the first row was written, nobody was promised anything: the caller asks again.
      await insist(async () => pipelineOf(name).lifecycle.stop());
      await restsAs(name, "stopped");
      await commit(input, { d: "1" });
      expect((await allJobs(pipelineOf(name))).map(({ state }) => state)).toEqual([
        "success",
        "killed",
        "killed",
      ]);
      await pipelineOf(name).lifecycle.start();
      const ran = await workUntil(pipelineOf(name), { jobs: 4 });
      expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["b", "c", "d"]);
      expect(await allJobs(pipelineOf(name))).toHaveLength(4);
      expect(await filesOf({ repo: name, branch: "master" })).toEqual(["a.out", "b.out", "c.out", "d.out"]);
    });
});

describe("a pipeline that is killed while it is being started", () => {
  for (const [fault, options] of sampled(START, { every: 8 }))
    it(`when ${fault.at}, is started with exactly one job`, options, async () => {
      const { name, input } = await busyPipeline();
      await pipelineOf(name).lifecycle.stop();
      await commit(input, { a: null, d: "1" });
      await killedAt(name, { point: fault, work: () => pipelineOf(name).lifecycle.start() });
      await insist(async () => pipelineOf(name).lifecycle.start());
      await restsAs(name, "active");
      await workUntil(pipelineOf(name), { jobs: 4 });
      const jobs = await allJobs(pipelineOf(name));
      expect(jobs).toHaveLength(4);
      expect(jobs[3]).toMatchObject({ state: "success", datums: { total: 3, processed: 3 } });
      expect(await filesOf({ repo: name, branch: "master" })).toEqual(["b.out", "c.out", "d.out"]);
    });
});

describe("a pipeline that is killed while it is being updated", () => {
  for (const [fault, options] of sampled(UPDATE, { every: 8 }))
    it(`when ${fault.at}, has the new version and exactly one job for it`, options, async () => {
      const { name, input, more } = await busyPipeline();
      await commit(more, { x: "1" });
      const spec = specOf({
        name,
        globs: { [input]: "/*", [more]: "/*" },
        more: { transform: { image: "none", cmd: ["new"] } },
      });
      const update = async () => pipelineOf(name).specification.update({ spec, reprocess: false });
      await killedAt(name, { point: fault, work: update });
      expect(await insist(update)).toMatchObject({ ok: true, pipeline: { state: "active", version: 2 } });
      await restsAs(name, "active");
      const ran = await workUntil(pipelineOf(name), { jobs: 4 });
      expect(ran.map(({ paths }) => paths.join("+")).sort()).toEqual(["a+x", "b+x", "c+x"]);
      const jobs = await allJobs(pipelineOf(name));
      expect(jobs.map(({ state }) => state)).toEqual(["success", "killed", "killed", "success"]);
      expect(await filesOf({ repo: name, branch: "master" })).toEqual(["a+x.out", "b+x.out", "c+x.out"]);
      await commit(more, { y: "1" });
      expect(await workUntil(pipelineOf(name), { jobs: 5 })).toHaveLength(3);
    });
});

describe("a pipeline that is killed while one of its jobs is being stopped", () => {
  for (const [fault, options] of sampled(JOB_STOP, { every: 8 }))
    it(`when ${fault.at}, has it killed, and the next one whole`, options, async () => {
      const { name } = await busyPipeline();
      const [, second] = await allJobs(pipelineOf(name));
      const stop = async () => pipelineOf(name).jobs.stop(second?.id ?? "");
      await killedAt(name, { point: fault, work: stop });
      expect(await insist(stop)).toMatchObject({ ok: true, job: { state: "killed" } });
      const ran = await workUntil(pipelineOf(name), { jobs: 3 });
      expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["b", "c"]);
      const jobs = await allJobs(pipelineOf(name));
      expect(jobs.map(({ state }) => state)).toEqual(["success", "killed", "success"]);
      expect(await filesOf({ repo: name, branch: "master" })).toEqual(["a.out", "b.out", "c.out"]);
    });
});

describe("a pipeline that is killed while a job's output is being committed", () => {
  const COMMIT: FaultPoint[] = [
    { at: "it is written that it will be", of: JobStore.prototype, method: "setCommitting", when: "before" },
    { at: "the branch has it", of: PublishedStore.prototype, method: "add", when: "before" },
    { at: "the job is ended", of: JobStore.prototype, method: "end", when: "before" },
  ];
  for (const [fault, options] of sampled(COMMIT, { every: 8 }))
    it(`when ${fault.at}, and stopped then, has one commit or none, as the job says`, options, async () => {
      const name = `crash-${++pipelines}`;
      await makeRepo(`${name}-in`);
      const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
      await commit(`${name}-in`, { a: "1" });
      await expect.poll(async () => (await allJobs(pipeline)).length).toBe(1);
      await killedAt(name, { point: fault, work: () => workUntil(pipeline, { jobs: 1 }) });
      await insist(async () => pipelineOf(name).lifecycle.stop());
      const [job] = await insist(async () => allJobs(pipelineOf(name)));
      const files = await filesOf({ repo: name, branch: "master" });
      expect(job?.state === "success" ? ["a.out"] : []).toEqual(files);
      expect(job?.finishedAt).not.toBeNull();
      await pipelineOf(name).lifecycle.start();
      await commit(`${name}-in`, { b: "1" });
      await workUntil(pipelineOf(name), {
        jobs: 2,
        command: (datum) => ({ [`${pathsOf(datum)[0]}.out`]: datum.datum }),
      });
      expect(await filesOf({ repo: name, branch: "master" })).toEqual(["a.out", "b.out"]);
    });
});
