import { setTimeout as pause } from "node:timers/promises";
import { type BranchAddress, bucketName, DEFAULT_BRANCH } from "../../../protocol/names.ts";
import { Downstream, FateState, Job, JobPage, Pipeline, PipelineList } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { ERRORS_BRANCH } from "../../../protocol/spec.ts";
import { allPages, type Client, GatewayError, pagesOf, patiently } from "../client.ts";
import { commitsPath } from "../commits.ts";
import { deadlineOf, timeIsUp, waitForEnd } from "./job-wait.ts";

/** Jobs that a commit leads to: those that read it, those that read what these made, and so on. */

/** A commit of a branch. */
interface CommitPlace {
  readonly bucket: string;
  readonly commit: string;
}

export interface WaitDownstream extends CommitPlace, BranchAddress {
  readonly timeoutSeconds: number | undefined;
  /** Called with all jobs that are known so far, whenever something changes. */
  readonly onJobs?: ((jobs: readonly Job[]) => void) | undefined;
  /** How often a job is looked at for that (default: as for a terminal). */
  readonly lookSeconds?: number | undefined;
  /** A pipeline that reads a commit and makes no job of it, and why. */
  readonly onSkipped: (pipeline: string, why: string) => void;
  /** Called with how many pipelines that the key may not see are at it. */
  readonly onUnseen?: ((count: number) => void) | undefined;
  readonly lost: (error: unknown) => void;
}

/** What came of a commit. */
export interface CameOf {
  /** In the order in which they were found. */
  readonly jobs: readonly Job[];
  /** Pipelines whose own repo the key may not read, and all of whose inputs it may. */
  readonly named: Downstream["named"];
  /** How many pipelines the key may not see, by what became of the commit there. */
  readonly unseen: Downstream["unseen"];
  /** Whether the gateway looked at all of these. */
  readonly isWhole: boolean;
}

/** Pauses between two looks whether a job is there. */
const FIRST_PAUSE_MS = 100;
const LAST_PAUSE_MS = 2_000;
const PAGE_JOBS = 100;

/** Waits until every job downstream of a commit has ended, those that the key may not see as well. */
export async function waitDownstream(client: Client, asked: WaitDownstream): Promise<CameOf> {
  const wait = { ...asked, onSkipped: onceEach(asked.onSkipped) };
  const deadline = deadlineOf(wait.timeoutSeconds);
  const jobs = new Map<string, Job>();
  const note = (job: Job): void => {
    jobs.set(job.id, job);
    wait.onJobs?.([...jobs.values()]);
  };
  const begun = new Set<string>();
  const follow = async (place: CommitPlace): Promise<void> => {
    const key = `${place.bucket}@${place.commit}`;
    // Two ways may lead to one commit.
    if (begun.has(key)) return;
    begun.add(key);
    const readers = await patiently(() => readersOf(client, place.bucket), { lost: wait.lost });
    await Promise.all(
      readers.map(async (reader) => {
        const found = await jobOf(client, { reader, place, deadline, wait });
        if (found) await see(found);
      }),
    );
  };
  const see = async (found: Job): Promise<void> => {
    if (jobs.has(found.id)) return;
    note(found);
    const left = Math.max(1, Math.ceil((deadline - performance.now()) / 1000));
    const job = await waitForEnd(client, {
      ...{ id: found.id, lost: wait.lost, onJob: wait.onJobs && note },
      timeoutSeconds: wait.timeoutSeconds === undefined ? undefined : left,
      lookSeconds: wait.lookSeconds,
    });
    note(job);
    await Promise.all(outputsOf(job).map(follow));
  };
  const onJob = async (id: string): Promise<void> => {
    if (!jobs.has(id)) await see(await jobById(client, { id, lost: wait.lost }));
  };
  const [, unseen] = await Promise.all([follow(wait), waitUnseen(client, { wait, deadline, onJob })]);
  return { jobs: [...jobs.values()], ...unseen };
}

function onceEach(onSkipped: WaitDownstream["onSkipped"]): WaitDownstream["onSkipped"] {
  const said = new Set<string>();
  return (pipeline, why) => {
    if (!said.has(pipeline)) onSkipped(pipeline, why);
    said.add(pipeline);
  };
}

/** The list by which jobs are found may be a moment behind the pipeline that told of one. */
const LOOKS_FOR_JOB = 20;
const LOOK_PAUSE_MS = 250;

async function jobById(
  client: Client,
  { id, lost }: { id: string; lost: WaitDownstream["lost"] },
): Promise<Job> {
  const path = `/jobs/${encodePath(id)}`;
  for (let look = 1; ; look++) {
    try {
      return await patiently(() => client.get(Job, path), { lost });
    } catch (error) {
      const isAbsent = error instanceof GatewayError && error.code === "NoSuchJob";
      if (!isAbsent || look === LOOKS_FOR_JOB) throw error;
    }
    await pause(LOOK_PAUSE_MS);
  }
}

interface WaitUnseen {
  readonly wait: WaitDownstream;
  readonly deadline: number;
  /** Called with a job that comes after what the key may not see, and that it may see itself. */
  readonly onJob: (id: string) => Promise<void>;
}

/** Waits for the pipelines that the key may not see, page by page: what has ended stays so. */
async function waitUnseen(client: Client, asked: WaitUnseen): Promise<Omit<CameOf, "jobs">> {
  const pages = await allPages(
    pagesOf((after: number | undefined) => endedPage(client, { ...asked, after })),
  );
  const unseen = { running: 0, success: 0, failure: 0, killed: 0, none: 0, unknown: 0 };
  for (const state of FateState.options) {
    for (const page of pages) unseen[state] += page.unseen[state];
  }
  return { named: pages.flatMap(({ named }) => named), unseen, isWhole: !pages.some(({ more }) => more) };
}

/** The longest that one request waits for the end of one job. */
const WAIT_SECONDS = 20;

async function endedPage(
  client: Client,
  { wait, deadline, onJob, after = 0 }: WaitUnseen & { after: number | undefined },
): Promise<Downstream> {
  const path = `${commitsPath(wait)}/${encodePath(wait.commit)}/downstream`;
  const seen = new Map<string, Promise<void>>();
  let most = 0;
  // The first look is short: it says how many there are.
  for (let pauseMs = FIRST_PAUSE_MS, longest = 0; ; pauseMs = Math.min(2 * pauseMs, LAST_PAUSE_MS)) {
    const seconds = Math.min(longest, Math.max(0, (deadline - performance.now()) / 1000));
    longest = WAIT_SECONDS;
    const ask = () => client.get(Downstream, path, { after: String(after), wait: String(seconds) });
    const page = await patiently(ask, { lost: wait.lost, deadline });
    for (const { job } of page.seen) {
      if (job === null || seen.has(job)) continue;
      const end = onJob(job);
      // It is told below, when the page has ended.
      end.catch(() => {});
      seen.set(job, end);
    }
    const count = countOf(page);
    most = Math.max(most, count);
    wait.onUnseen?.(page.unseen.running + page.named.filter(isAtIt).length);
    if (page.ended) {
      await Promise.all(seen.values());
      for (const { pipeline, state, reason } of [...page.named, ...page.seen]) {
        if (state === "none" || state === "unknown") wait.onSkipped(pipeline, reason ?? "it says no more");
      }
      // Of one that was deleted meanwhile nobody tells how it ended.
      return { ...page, unseen: { ...page.unseen, unknown: page.unseen.unknown + most - count } };
    }
    if (performance.now() >= deadline) throw timeIsUp(`${openText(page)} after ${wait.timeoutSeconds} s`);
    await pause(pauseMs);
  }
}

function countOf({ named, unseen }: Downstream): number {
  return Object.values(unseen).reduce((sum, count) => sum + count, named.length);
}

function isAtIt({ state }: { readonly state: FateState }): boolean {
  return state === "running";
}

function openText({ named, seen, unseen: { running } }: Downstream): string {
  const names = [...named, ...seen].filter(isAtIt).map(({ pipeline }) => pipeline);
  const who = [...new Set(names), ...(running > 0 ? [unseenText(running)] : [])];
  return `${who.join(", ")} ${who.length === 1 && running < 2 ? "has" : "have"} not ended`;
}

/** For people. */
export function unseenText(count: number): string {
  return `${count} ${count === 1 ? "pipeline" : "pipelines"} that this key may not see`;
}

/** Pipelines that read a branch, those that are stopped as well, as far as the key may see them. */
export async function readersOf(client: Client, bucket: string): Promise<PipelineList["pipelines"]> {
  const { pipelines } = await client.get(PipelineList, "/pipelines");
  return pipelines.filter(({ inputs }) => inputs.includes(bucket));
}

/** Their names, for people. */
export function namesOf(pipelines: readonly { readonly name: string }[]): string {
  const names = pipelines.map(({ name }) => name);
  return `${names.length === 1 ? "the pipeline" : "the pipelines"} ${names.join(", ")}`;
}

type Reader = PipelineList["pipelines"][number];

/** The job that a pipeline makes of a commit, once it is there; undefined if it makes none. */
async function jobOf(
  client: Client,
  {
    reader,
    place,
    deadline,
    wait,
  }: { reader: Reader; place: CommitPlace; deadline: number; wait: WaitDownstream },
): Promise<Job | undefined> {
  const { lost, onSkipped } = wait;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LAST_PAUSE_MS)) {
    const ask = () => client.get(Pipeline, `/pipelines/${encodePath(reader.name)}`);
    const pipeline = await patiently(ask, { lost });
    // After the pipeline: a job that comes between the two is seen.
    const found = await firstJobWith(client, { reader, place, lost });
    if (found === "passed") {
      onSkipped(reader.name, "it began with a later commit");
      return undefined;
    }
    if (found) return found;
    const why = whyNoJob(pipeline, place);
    if (why !== undefined) {
      onSkipped(reader.name, why);
      return undefined;
    }
    if (performance.now() + pauseMs > deadline) {
      throw timeIsUp(`pipeline ${reader.name} has made no job of the commit within ${wait.timeoutSeconds} s`);
    }
    await pause(pauseMs);
  }
}

/** Why a pipeline makes no job of a commit, if it will not. */
function whyNoJob({ state, reason, spec }: Pipeline, { bucket, commit }: CommitPlace): string | undefined {
  if (!["active", "creating", "starting", "updating"].includes(state)) return `it is ${state}`;
  if (reason !== null) return reason;
  const input = spec.inputs.find(
    ({ repo, branch }) => bucketName({ repo: repo.name, branch: branch ?? DEFAULT_BRANCH }) === bucket,
  );
  const from = input?.from?.ID;
  const isBehind = from !== undefined && (from === commit || timePart(from) > timePart(commit));
  return isBehind ? "its input begins behind the commit" : undefined;
}

/** The oldest job that has the commit in its input; `passed`: there are only jobs of later ones. */
async function firstJobWith(
  client: Client,
  { reader, place, lost }: { reader: Reader; place: CommitPlace; lost: WaitDownstream["lost"] },
): Promise<Job | "passed" | undefined> {
  let found: Job | undefined;
  let isPassed = false;
  const ask = (after: string | undefined) =>
    client.get(JobPage, "/jobs", { pipeline: reader.name, limit: PAGE_JOBS, after });
  for await (const page of pagesOf((after: string | undefined) => patiently(() => ask(after), { lost }))) {
    const jobs = page.jobs.map((job) => ({ job, read: whatRead(job, place) }));
    found = jobs.findLast(({ read }) => read === "it")?.job ?? found;
    isPassed ||= jobs.some(({ read }) => read === "later");
    if (jobs.some(({ read }) => read === "earlier")) break;
  }
  return found ?? (isPassed ? "passed" : undefined);
}

/** Which commit of the branch a job had in its input. Two of one millisecond are in no order by their ids. */
function whatRead({ inputs }: Job, { bucket, commit }: CommitPlace): "it" | "earlier" | "later" | undefined {
  const read = inputs.find((input) => bucketName(input) === bucket)?.commit ?? "";
  if (read === commit) return "it";
  if (timePart(read) < timePart(commit)) return "earlier";
  return timePart(read) > timePart(commit) ? "later" : undefined;
}

/** The time in an id. */
function timePart(id: string): string {
  return id.slice(0, 10);
}

function outputsOf({ pipeline, output, outputCommit, errorsCommit }: Job): CommitPlace[] {
  const errors = bucketName({ repo: pipeline, branch: ERRORS_BRANCH });
  return [
    ...(outputCommit === null || !output ? [] : [{ bucket: bucketName(output), commit: outputCommit }]),
    ...(errorsCommit === undefined ? [] : [{ bucket: errors, commit: errorsCommit }]),
  ];
}
