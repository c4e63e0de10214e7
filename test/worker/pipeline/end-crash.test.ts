import { beforeAll, describe, expect, it } from "vitest";
import { TaskStore } from "../../../worker/pipeline/attempts/task-store.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { PipelineStore } from "../../../worker/pipeline/lifecycle/pipeline-store.ts";
import {
  ChangedStore,
  EndingStore,
  MergeStore,
  OperationStore,
} from "../../../worker/pipeline/output/draft-store.ts";
import { EgressStore } from "../../../worker/pipeline/output/egress-store.ts";
import { PublishedStore } from "../../../worker/pipeline/output/published-store.ts";
import { sampled } from "../../support/suite.ts";
import { type FaultPoint, insist, killedAt, ringAlarms, shortenPauses } from "./faults.ts";
import {
  allJobs,
  type Command,
  commit,
  contentOf,
  expireLeases,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  pipelineOf,
  query,
  workOnce,
} from "./support.ts";
import { FakeStore, textsOf } from "./tasks.ts";

/** The steps of a job's end: each is a moment before and a moment after which the object may die. */
const STEPS: readonly Omit<FaultPoint, "when">[] = [
  { at: "what changes is noted", of: ChangedStore.prototype, method: "set" },
  { at: "the changes are known", of: EndingStore.prototype, method: "set" },
  { at: "a path is planned", of: OperationStore.prototype, method: "set" },
  { at: "a merge is queued", of: TaskStore.prototype, method: "addMerge" },
  { at: "a task is leased", of: TaskStore.prototype, method: "run" },
  { at: "a merge is recorded", of: MergeStore.prototype, method: "record" },
  { at: "its task is done", of: TaskStore.prototype, method: "remove" },
  { at: "a merge is used", of: MergeStore.prototype, method: "use", call: 2 },
  { at: "the commit is announced", of: JobStore.prototype, method: "setCommitting" },
  { at: "the commit is noted", of: JobStore.prototype, method: "setCommitted" },
  { at: "what is written is noted", of: PublishedStore.prototype, method: "add" },
  { at: "another one is noted", of: PublishedStore.prototype, method: "add", call: 2 },
  { at: "a push is noted", of: EgressStore.prototype, method: "add" },
  { at: "the commit is done with", of: PipelineStore.prototype, method: "setCommitted" },
  { at: "the job is to be pushed", of: JobStore.prototype, method: "setEgressing" },
  { at: "a push is made a task", of: EgressStore.prototype, method: "assign" },
  { at: "a push is done", of: EgressStore.prototype, method: "pushed" },
  { at: "the job ends", of: JobStore.prototype, method: "end" },
  { at: "nothing is left of its end", of: EndingStore.prototype, method: "remove" },
];

const POINTS = STEPS.flatMap((step): FaultPoint[] => [
  { ...step, when: "before", at: `before ${step.at}` },
  { ...step, when: "after", at: `after ${step.at}` },
]);

/** One path that all write, and one of each datum's own. */
const command: Command = (datum) => {
  const path = pathsOf(datum)[0] ?? "";
  return { all: `<${path}>`, [`${path}.out`]: path };
};

/** Works until so many jobs have ended, whatever dies; leases that a death left behind run out. */
async function workThrough(name: string, { jobs, store }: { jobs: number; store: FakeStore }): Promise<void> {
  for (;;) {
    const all = await insist(async () => allJobs(pipelineOf(name)));
    if (all.length === jobs && all.every(({ finishedAt }) => finishedAt !== null)) return;
    const ran = await workOnce(pipelineOf(name), { command, push: store.push }).catch(() => []);
    if (ran.length > 0) continue;
    await insist(async () => expireLeases(name));
    await ringAlarms(name);
  }
}

async function outputCommits(repo: string): Promise<(string | null)[]> {
  const { events } = await master(repo).feed.read({ cursor: { generation: 0, seq: 0 }, limit: 100 });
  return events.map(({ id }) => id);
}

async function expectWhole(
  name: string,
  { paths, store }: { paths: string[]; store: FakeStore },
): Promise<void> {
  const texts = {
    all: paths.map((path) => `<${path}>`).join(""),
    ...Object.fromEntries(paths.map((path) => [`${path}.out`, path])),
  };
  expect(await textsOf({ repo: name, branch: "master" })).toEqual(texts);
  const digests = Object.entries(texts).map(([path, text]) => [path, contentOf(text).digest]);
  expect(Object.fromEntries(store.files)).toEqual(Object.fromEntries(digests));
  const jobs = await allJobs(pipelineOf(name));
  expect(jobs.map(({ state, reason }) => [state, reason])).toEqual(jobs.map(() => ["success", null]));
  expect(await outputCommits(name)).toEqual(jobs.map(({ outputCommit }) => outputCommit));
  const written = paths.flatMap((path) => [
    { path: "all", key: path },
    { path: `${path}.out`, key: path },
  ]);
  expect(await query(name, "SELECT path, key FROM published ORDER BY key, path <> 'all'")).toEqual(written);
  for (const table of ["ending", "changed", "operations", "tasks", "egress_pending", "egress_moved"]) {
    expect(await query(name, `SELECT * FROM ${table}`)).toEqual([]);
  }
}

beforeAll(shortenPauses);

let lives = 0;

describe("a pipeline that is killed while a job ends", () => {
  for (const [point, options] of sampled(POINTS, { every: 20 })) {
    it(`${point.at}, ends it once and right, and the next one`, options, async () => {
      const name = `end-${++lives}`;
      const store = new FakeStore();
      await makeRepo(`${name}-in`);
      await makePipeline({
        name,
        globs: { [`${name}-in`]: "/*" },
        more: { egress: { URL: "s3://bucket" } },
      });
      const work = async (): Promise<void> => {
        await commit(`${name}-in`, { a: "1", b: "1", c: "1" });
        await workThrough(name, { jobs: 1, store });
      };
      await killedAt(name, { point, work });
      await workThrough(name, { jobs: 1, store });
      await expectWhole(name, { paths: ["a", "b", "c"], store });
      await commit(`${name}-in`, { b: null, d: "1" });
      await workThrough(name, { jobs: 2, store });
      await expectWhole(name, { paths: ["a", "c", "d"], store });
    });
  }
});
