import { env, runDurableObjectAlarm } from "cloudflare:test";
import { expect } from "vitest";
import type { BranchAddress } from "../../../protocol/names.ts";
import type { Outcome, Task } from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { type Gateway, insist, ringAlarms } from "./faults.ts";
import { Outside } from "./model/outside.ts";
import { done, idOf } from "./model/work.ts";
import {
  allJobs,
  branchOf,
  type Command,
  commit,
  contentOf,
  dueLoops,
  expireLeases,
  makePipeline,
  makeRepo,
  outcomeOf,
  pathsOf,
  pipelineOf,
  query,
} from "./support.ts";

/** A pipeline whose objects may be killed at any moment, and clients that do not give up because of that. */
export interface Life {
  readonly name: string;
  readonly gateway: Gateway;
  /** What was pushed. */
  readonly outside: Outside;
  readonly command: Command;
  /** Datums that a worker takes at a time. */
  readonly max: number;
}

/** Where outputs are pushed to. */
const STORE = "s3://outside/store";

/** Each file becomes one of its own name, and a line of one that all write together. */
const COMMAND: Command = (datum) => {
  const path = pathsOf(datum)[0] ?? "";
  const outputs = outputsOf(path, datum.inputs[0]?.content?.digest ?? "");
  for (const text of Object.values(outputs)) idOf(text);
  return outputs;
};

function outputsOf(path: string, digest: string): Record<string, string> {
  return { [`${path}.out`]: `${path} of ${digest}\n`, all: `${path}\n` };
}

/** A pipeline that has done its first job. */
export async function begin(name: string, files: Readonly<Record<string, string>>): Promise<Life> {
  const repo = `${name}-in`;
  await makeRepo(repo);
  await makePipeline({ name, globs: { [repo]: "/*" }, more: { egress: { URL: STORE } } });
  await commit(repo, files);
  const life = {
    name,
    outside: new Outside(),
    command: COMMAND,
    max: 1,
    gateway: { input: { repo, branch: "master" }, output: { repo: name, branch: "master" } },
  };
  await workUntil(life, { jobs: 1 });
  return life;
}

/** Commits, and asks again until it is told that it is there: what is there already makes no second commit. */
export async function commitSurely(
  { gateway }: Life,
  files: Readonly<Record<string, string | null>>,
): Promise<void> {
  await insist(async () => {
    try {
      await commit(gateway.input.repo, files);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("no commit"))) throw error;
    }
  });
}

/** Looks in a row that find neither work nor an alarm until nothing is taken to come: an alarm that rings just then is none. */
const LOOKS = 3;

/**
 * A worker that goes on until so many jobs were made and all have ended. Leases that a death left behind run out. Fails once
 * nothing is left that could still make or end a job.
 */
export async function workUntil(life: Life, { jobs }: { jobs: number }): Promise<void> {
  const { name, gateway } = life;
  let looks = 0;
  while (!(await hasEnded(life, jobs))) {
    if (looks === LOOKS) throw new Error(`${name} rests, and has not made and ended ${jobs} jobs`);
    const ran = await workOnce(life).catch(() => undefined);
    if (ran !== undefined && ran > 0) {
      looks = 0;
      continue;
    }
    await insist(async () => expireAll(name));
    const mayGoOn =
      (await ringAlarms(name, gateway)) || (await insist(async () => dueLoops(name))).length > 0;
    looks = mayGoOn || ran === undefined ? 0 : looks + 1;
  }
}

async function expireAll(name: string): Promise<void> {
  await expireLeases(name);
  await query(name, "UPDATE tasks SET leaseUntil = 1 WHERE leaseUntil IS NOT NULL");
}

async function hasEnded({ name }: Life, count: number): Promise<boolean> {
  const jobs = await insist(async () => allJobs(pipelineOf(name)));
  if (jobs.length > count) throw new Error(`${name} has ${jobs.length} jobs, not ${count}`);
  return jobs.length === count && jobs.every(({ finishedAt }) => finishedAt !== null);
}

async function workOnce({ name, outside, command, max }: Life): Promise<number> {
  const leased = await pipelineOf(name).leases.take({ node: "n1", worker: "w1", max, waitMs: 20 });
  if (!leased.ok) return 0;
  const { output } = leased;
  const outcomes = await Promise.all([
    ...leased.datums.map((datum) => outcomeOf(datum, { command, output })),
    ...leased.tasks.map((task) => taskOutcome(task, { outside, output })),
  ]);
  if (outcomes.length > 0) await pipelineOf(name).leases.finish({ worker: "w1", outcomes });
  return outcomes.length;
}

async function taskOutcome(
  task: Task,
  { outside, output }: { outside: Outside; output: BranchAddress },
): Promise<Outcome> {
  const { outcome, texts } = done(task, { lease: task.lease, lost: false, random: () => 1, outside });
  if (outcome.state !== "merged") return outcome;
  const branch = branchOf(output);
  const opened = await branch.uploads.open({ lease: task.lease });
  if (!opened.ok) throw new Error(opened.reason);
  await branch.uploads.add({ upload: opened.upload, contents: texts.map(contentOf) });
  return { ...outcome, upload: opened.upload };
}

/** Holds what is there to the inputs: each commit has one job, each job one commit, and nothing goes on for ever. */
export async function expectWhole(
  { name, gateway, outside }: Life,
  { files, jobs: expected }: { files: Readonly<Record<string, string>>; jobs: readonly object[] },
): Promise<void> {
  const start = { cursor: { generation: 0, seq: 0 }, limit: 10_000 };
  const inputs = (await branchOf(gateway.input).feed.read(start)).events.map(({ id }) => id);
  const jobs = await allJobs(pipelineOf(name));
  expect(jobs.map((job) => job.inputs[0]?.commit)).toEqual(inputs);
  expect(jobs.map(({ state, datums }) => ({ state, ...datums }))).toEqual(expected);
  const commits = (await branchOf(gateway.output).feed.read(start)).events.map(({ id }) => id);
  expect(jobs.map(({ outputCommit }) => outputCommit)).toEqual(commits);
  const texts = mergedOutputs(files);
  const listed = await branchOf(gateway.output).files.list({ prefix: "", limit: 1000 });
  if (!listed.ok) throw new Error(listed.reason);
  const found = listed.entries.map((entry) => [entry.path, entry.kind === "file" ? entry.digest : ""]);
  expect(found).toEqual(texts.map(([path, text]) => [path, contentOf(text).digest]));
  expect(outside.files(STORE)).toEqual(texts);
  await expectRest(name);
}

function mergedOutputs(files: Readonly<Record<string, string>>): [string, string][] {
  const texts = new Map<string, string>();
  for (const [file, text] of Object.entries(files)) {
    for (const [path, output] of Object.entries(outputsOf(file, contentOf(text).digest))) {
      texts.set(path, (texts.get(path) ?? "") + output);
    }
  }
  return [...texts].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** What must not be there while a pipeline rests. */
const LEFT_OVER = [
  "SELECT 'touched' AS what FROM touched",
  "SELECT 'task ' || kind AS what FROM tasks",
  "SELECT 'ending ' || step AS what FROM ending",
  "SELECT 'attempt ' || state AS what FROM attempts WHERE finishedAt IS NULL",
  "SELECT 'push' AS what FROM egress_pending",
  `SELECT 'job ' || state AS what FROM jobs
   WHERE finishedAt IS NULL OR filled = 0 OR reaping = 1 OR committing = 1 OR open <> 0 OR flushed < version`,
  "SELECT 'pull' AS what FROM pipeline WHERE pullDue = 1",
];

/** No row is left that somebody would still have to do something about, and no alarm stands for work. */
export async function expectRest(name: string): Promise<void> {
  const leftOver = async (): Promise<unknown[]> => {
    await insist(async () => runDurableObjectAlarm(env.PIPELINE.getByName(name)));
    return [
      ...(await Promise.all(LEFT_OVER.map((sql) => query(name, sql)))).flat(),
      ...(await dueLoops(name)),
    ];
  };
  await expect.poll(leftOver, { timeout: 60_000 }).toEqual([]);
  const told = await openCatalogue(env.DB).jobs.list({ pipeline: name, limit: 1000 });
  expect(told.reverse()).toEqual(await allJobs(pipelineOf(name)));
}
