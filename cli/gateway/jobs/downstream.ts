import { setTimeout as pause } from "node:timers/promises";
import { bucketName, DEFAULT_BRANCH } from "../../../protocol/names.ts";
import { type Job, JobPage, Pipeline, PipelineList } from "../../../protocol/pipelines.ts";
import { ERRORS_BRANCH } from "../../../protocol/spec.ts";
import { type Client, encodePath } from "../client.ts";
import { patiently } from "../patience.ts";
import { deadlineOf, timeIsUp, waitForEnd } from "./job-wait.ts";

/** Jobs that a commit leads to: those that read it, those that read what these made, and so on. */

/** A commit of a branch. */
interface CommitPlace {
  readonly bucket: string;
  readonly commit: string;
}

export interface WaitDownstream extends CommitPlace {
  readonly timeoutSeconds: number | undefined;
  /** Called with all jobs that are known so far, whenever something changes. */
  readonly onJobs?: ((jobs: readonly Job[]) => void) | undefined;
  /** A pipeline that reads a commit and makes no job of it, and why. */
  readonly onSkipped: (pipeline: string, why: string) => void;
  readonly lost: (error: unknown) => void;
}

/** Pauses between two looks whether a job is there. */
const FIRST_PAUSE_MS = 100;
const LAST_PAUSE_MS = 2_000;
const PAGE_JOBS = 100;

/** Waits until every job downstream of a commit has ended. Returns them in the order in which they were found. */
export async function waitDownstream(client: Client, wait: WaitDownstream): Promise<Job[]> {
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
        if (found === undefined || jobs.has(found.id)) return;
        note(found);
        const left = Math.max(1, Math.ceil((deadline - Date.now()) / 1000));
        const job = await waitForEnd(client, {
          ...{ id: found.id, lost: wait.lost, onJob: wait.onJobs && note },
          timeoutSeconds: wait.timeoutSeconds === undefined ? undefined : left,
        });
        note(job);
        await Promise.all(outputsOf(job, reader).map(follow));
      }),
    );
  };
  await follow(wait);
  return [...jobs.values()];
}

/** Pipelines that read a branch, those that are stopped as well, as far as the key may see them. */
export async function readersOf(client: Client, bucket: string): Promise<PipelineList["pipelines"]> {
  const { pipelines } = await client.call(PipelineList, { method: "GET", path: "/pipelines" });
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
    const path = `/pipelines/${encodePath(reader.name)}`;
    const pipeline = await patiently(() => client.call(Pipeline, { method: "GET", path }), { lost });
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
    if (Date.now() + pauseMs > deadline) {
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
  let after: string | undefined;
  do {
    const query = { pipeline: reader.name, limit: PAGE_JOBS, after };
    const ask = () => client.call(JobPage, { method: "GET", path: "/jobs", query });
    const page = await patiently(ask, { lost });
    const jobs = page.jobs.map((job) => ({ job, read: whatRead(job, place) }));
    found = jobs.findLast(({ read }) => read === "it")?.job ?? found;
    isPassed ||= jobs.some(({ read }) => read === "later");
    if (jobs.some(({ read }) => read === "earlier")) break;
    after = page.next ?? undefined;
  } while (after !== undefined);
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

function outputsOf({ pipeline, outputCommit, errorsCommit }: Job, { output }: Reader): CommitPlace[] {
  const errors = bucketName({ repo: pipeline, branch: ERRORS_BRANCH });
  return [
    ...(outputCommit === null ? [] : [{ bucket: output, commit: outputCommit }]),
    ...(errorsCommit === undefined ? [] : [{ bucket: errors, commit: errorsCommit }]),
  ];
}
