import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { createHash } from "node:crypto";
import { expect } from "vitest";
import type { z } from "zod";
import type { ContentId } from "../../../protocol/content.ts";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import type { Job } from "../../../protocol/pipelines.ts";
import type { LeasedDatum, Outcome, Output, Task } from "../../../protocol/runner.ts";
import { PipelineSpec } from "../../../protocol/spec.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import type { Leased, PipelineApi } from "../../../worker/pipeline/contract.ts";

export function branchOf(address: BranchAddress): BranchApi {
  return clientOf<BranchApi>(env.BRANCH.getByName(bucketName(address)));
}

export function pipelineOf(name: string): PipelineApi {
  return clientOf(env.PIPELINE.getByName(name));
}

/** The `master` branch of a repo. */
export function master(repo: string): BranchApi {
  return branchOf({ repo, branch: "master" });
}

export async function makeRepo(...repos: string[]): Promise<void> {
  for (const repo of repos) {
    const made = await master(repo).lifecycle.create();
    if (!made.ok) throw new Error(`${repo}: ${made.reason}`);
  }
}

export function contentOf(text: string): Content {
  const bytes = new TextEncoder().encode(text);
  const digest = createHash("sha256").update(bytes).digest("hex");
  return { digest, size: bytes.length, body: { kind: "inline", bytes } };
}

/** One commit on `master`: a text writes the file, null removes it; a path ending in `/` is an empty directory. */
export async function commit(repo: string, files: Readonly<Record<string, string | null>>): Promise<string> {
  const branch = master(repo);
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  const written = Object.entries(files).flatMap(([path, text]) =>
    text === null ? [] : [{ path, content: contentOf(text) }],
  );
  for (let start = 0; start < written.length; start += 1000) {
    const contents = written.slice(start, start + 1000).map(({ content }) => content);
    await branch.uploads.add({ upload: opened.upload, contents });
  }
  const made = await branch.files.commit({
    upload: opened.upload,
    operations: Object.entries(files).map(([path, text]) => {
      if (text === null) return { delete: path };
      const { digest, size } = contentOf(text);
      return { put: path, digest, size };
    }),
  });
  if (!made.ok || made.commit === null) throw new Error(`no commit: ${JSON.stringify(made)}`);
  return made.commit;
}

/** Waits until what any branch gets is later than what all have: commits of one millisecond have no order between branches. */
export async function clockMovesOn(): Promise<void> {
  // A commit may be a millisecond ahead of the clock, since it is later than what a pipeline was told.
  const newest = Date.now() + 1;
  await expect.poll(() => Date.now(), { interval: 1 }).toBeGreaterThan(newest);
}

/** A commit that is earlier than what any branch gets next. */
export async function commitBefore(...made: Parameters<typeof commit>): Promise<void> {
  await commit(...made);
  await clockMovesOn();
}

export interface SpecOptions {
  readonly name: string;
  /** Repo (or input name) to glob; the repo is named like the input unless `repos` says otherwise. */
  readonly globs: Readonly<Record<string, string>>;
  readonly repos?: Readonly<Record<string, string>>;
  readonly workers?: number;
  /** Fields of the specification that are not as these tests have them. */
  readonly more?: Partial<z.input<typeof PipelineSpec>>;
}

export function specOf({ name, globs, repos = {}, workers = 1, more = {} }: SpecOptions): PipelineSpec {
  return PipelineSpec.parse({
    pipeline: { name },
    transform: { image: "none", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: workers },
    inputs: Object.entries(globs).map(([input, glob]) => ({
      name: input,
      repo: { name: repos[input] ?? input },
      glob,
    })),
    ...more,
  });
}

export async function makePipeline(options: SpecOptions): Promise<PipelineApi> {
  const pipeline = pipelineOf(options.name);
  const made = await pipeline.lifecycle.create(specOf(options));
  if (!made.ok) throw new Error(`${options.name}: ${made.reason}`);
  return pipeline;
}

/** SQL: the paths that results have. */
export const OUTPUTS = "SELECT path FROM results WHERE path IS NOT NULL UNION ALL SELECT path FROM outputs";

/** Looks into a pipeline's rows. */
export async function query<Row>(name: string, sql: string): Promise<Row[]> {
  const stub = env.PIPELINE.getByName(name);
  return runInDurableObject(stub, (_, state) => state.storage.sql.exec(sql).toArray() as unknown as Row[]);
}

/** Writes the row of the pipeline itself, as an earlier instance of its object may have left it. */
export async function leftRow(name: string, set: string): Promise<void> {
  await query(name, `UPDATE pipeline SET ${set}`);
  await evictDurableObject(env.PIPELINE.getByName(name));
}

/** The loops of a pipeline's object that have something to do, now or at a time; none of one that was deleted. */
export async function dueLoops(name: string): Promise<string[]> {
  const told = await pipelineOf(name).admin.loops();
  return (told?.loops ?? []).filter(({ state }) => state !== "idle").map(({ name }) => name);
}

/** Makes every lease of a pipeline run out, as if its workers had been silent for long. */
export async function expireLeases(name: string): Promise<void> {
  await query(name, "UPDATE attempts SET leaseUntil = 1 WHERE leaseUntil IS NOT NULL");
  await query(name, "UPDATE lease_calls SET due = 1");
  await query(name, "UPDATE tasks SET leaseUntil = 1 WHERE leaseUntil IS NOT NULL");
}

/** Leases until there is something; for tests that hold on to a lease. */
export async function leaseSome(
  pipeline: PipelineApi,
  { worker = "w1", max = 10 }: { worker?: string; max?: number } = {},
): Promise<Leased> {
  const leased = await pipeline.leases.take({ node: "n1", worker, max, waitMs: 10_000 });
  if (!leased.ok || leased.datums.length === 0) throw new Error("nothing was leased");
  return leased;
}

/** The paths of a datum, by input. */
export function pathsOf(datum: LeasedDatum): string[] {
  return datum.inputs.map(({ path }) => path);
}

/** What a datum writes: paths to texts. */
export type Command = (datum: LeasedDatum) => Readonly<Record<string, string>> | "fail";

/** Writes one file that is called like the datum's inputs and holds what identifies them. */
export const echo: Command = (datum) => ({
  [`${pathsOf(datum)
    .map((path) => path.replaceAll("/", "_") || "root")
    .join("+")}.out`]: datum.datum,
});

/** Does what a runner does with a leased datum: sends the contents to the output branch, then says what came out. */
export async function outcomeOf(
  datum: LeasedDatum,
  { command, output }: { command: Command; output: BranchAddress },
): Promise<Outcome> {
  const files = command(datum);
  if (files === "fail") {
    return {
      lease: datum.lease,
      state: "failed",
      blame: "datum",
      exitCode: 3,
      reason: "the command failed",
      log: "one\ntwo\n",
      millis: 1,
    };
  }
  const contents = Object.values(files).map(contentOf);
  const outputs = Object.entries(files).map(([path, text]): Output => {
    const { digest, size } = contentOf(text);
    return { path, digest, size };
  });
  const success = {
    lease: datum.lease,
    state: "success",
    exitCode: 0,
    outputs,
    millis: 1,
    ran: { executor: "process", image: null },
  } as const;
  if (contents.length === 0) return success;
  const branch = branchOf(output);
  const opened = await branch.uploads.open({ lease: datum.lease });
  if (!opened.ok) throw new Error(opened.reason);
  const added = await branch.uploads.add({ upload: opened.upload, contents });
  if (!added.ok) throw new Error(added.reason);
  return { ...success, upload: opened.upload };
}

export type MergeTask = Extract<Task, { kind: "merge" }>;
export type EgressTask = Extract<Task, { kind: "egress" }>;

/** What a worker does with a slice of what is to be pushed; a text says why it could not. */
export type Pusher = (task: EgressTask) => undefined | string;

/** Does what a runner does with a leased task. */
export async function taskOutcome(
  task: Task,
  { output, push }: { output: BranchAddress; push?: Pusher | undefined },
): Promise<Outcome> {
  if (task.kind === "merge") return mergeOutcome(task, output);
  if (!push) throw new Error("something is to be pushed");
  const why = push(task);
  if (why === undefined) return { lease: task.lease, state: "pushed", millis: 1 };
  return failedTask(task, why);
}

export function failedTask({ lease }: Task, reason: string): Outcome {
  return { lease, state: "failed", blame: "node", exitCode: null, reason, log: "", millis: 1 };
}

/** Puts the parts together and sends the content to the output branch. */
export async function mergeOutcome({ lease, parts }: MergeTask, output: BranchAddress): Promise<Outcome> {
  const branch = branchOf(output);
  const texts = await Promise.all(parts.map((part) => textOf(output, part)));
  const { digest, size, body } = contentOf(texts.join(""));
  const opened = await branch.uploads.open({ lease });
  if (!opened.ok) throw new Error(opened.reason);
  await branch.uploads.add({ upload: opened.upload, contents: [{ digest, size, body }] });
  return { lease, state: "merged", content: { digest, size }, upload: opened.upload, millis: 1 };
}

/** A small content of a branch. */
export async function textOf(address: BranchAddress, id: ContentId): Promise<string> {
  const found = await branchOf(address).files.content(id);
  if (!found.ok || found.body.kind !== "inline") throw new Error(`no small content ${id.digest}`);
  return new TextDecoder().decode(found.body.bytes);
}

export interface Ran {
  readonly job: string;
  readonly paths: readonly string[];
}

/** Works until so many jobs were made and all have ended; returns what ran, in order. */
export async function workUntil(
  pipeline: PipelineApi,
  {
    jobs,
    command = echo,
    worker = "w1",
    max = 10,
    push,
  }: { jobs: number; command?: Command; worker?: string; max?: number; push?: Pusher },
): Promise<Ran[]> {
  const ran: Ran[] = [];
  for (;;) {
    // Jobs end in order: while the newest runs, the others need not be asked for, which would take most of the time.
    const [newest] = (await pipeline.jobs.list({ limit: 1 })).jobs;
    const all = newest && newest.finishedAt !== null ? await allJobs(pipeline) : [];
    if (all.length >= jobs && all.every(({ finishedAt }) => finishedAt !== null)) return ran;
    ran.push(...(await workOnce(pipeline, { command, worker, max, ...(push && { push }) })));
  }
}

/** One lease call and, for what it gave, one finish call; returns the datums that ran. */
export async function workOnce(
  pipeline: PipelineApi,
  {
    command = echo,
    worker = "w1",
    max = 10,
    push,
  }: { command?: Command; worker?: string; max?: number; push?: Pusher },
): Promise<Ran[]> {
  const leased = await pipeline.leases.take({ node: "n1", worker, max, waitMs: 20 });
  if (!leased.ok) throw new Error(leased.reason);
  const { output } = leased;
  const outcomes = await Promise.all([
    ...leased.tasks.map((task) => taskOutcome(task, { output, push })),
    ...leased.datums.map((datum) => outcomeOf(datum, { command, output })),
  ]);
  if (outcomes.length === 0) return [];
  const { lost } = await pipeline.leases.finish({ worker, outcomes });
  if (lost.length > 0) throw new Error(`lost ${lost.length} leases`);
  return leased.datums.map((datum) => ({ job: datum.job, paths: pathsOf(datum) }));
}

/** Oldest first. */
export async function allJobs(pipeline: PipelineApi): Promise<Job[]> {
  const jobs: Job[] = [];
  let after: string | null = null;
  do {
    const page: { jobs: Job[]; next: string | null } = await pipeline.jobs.list({
      ...(after && { after }),
      limit: 100,
    });
    jobs.push(...page.jobs);
    after = page.next;
  } while (after !== null);
  return jobs.reverse();
}

/** The paths of a branch's files, with their texts if they are small. */
export async function filesOf(address: BranchAddress): Promise<string[]> {
  const listed = await branchOf(address).files.list({ prefix: "", limit: 1000 });
  if (!listed.ok) throw new Error(listed.reason);
  return listed.entries.map(({ path }) => path);
}
