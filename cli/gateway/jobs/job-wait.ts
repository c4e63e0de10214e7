import { type FateState, Job, listedState } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { CliError, EXIT } from "../../output/failure.ts";
import { type Client, patiently } from "../client.ts";

/** The longest that one request waits for the end of a job. */
const WAIT_SECONDS = 20;
/** How long it waits if somebody looks on: on a terminal, or in lines that come each 10 s. */
export const LOOK_SECONDS = { terminal: 1, lines: 5 } as const;

export interface WaitForJob {
  readonly id: string;
  readonly timeoutSeconds: number | undefined;
  /** Called with the job as it is from time to time, if somebody looks on. */
  readonly onJob?: ((job: Job) => void) | undefined;
  /** How often `onJob` is called (default: as for a terminal). */
  readonly lookSeconds?: number | undefined;
  /** The gateway went away; it is asked again. */
  readonly lost: (error: unknown) => void;
}

/** Waits until a job has ended, also over a restart of the gateway. Throws a CliError if the time is up. */
export async function waitForEnd(
  client: Client,
  { id, timeoutSeconds, onJob, lost, lookSeconds = LOOK_SECONDS.terminal }: WaitForJob,
): Promise<Job> {
  const deadline = deadlineOf(timeoutSeconds);
  // The first look is short: it says how far the job is.
  for (let longest = onJob ? 0 : WAIT_SECONDS; ; longest = onJob ? lookSeconds : WAIT_SECONDS) {
    const seconds = Math.min(longest, Math.max(0, (deadline - performance.now()) / 1000));
    // The gateway answers when the job has ended, or when this time is over.
    const ask = () => client.get(Job, `/jobs/${encodePath(id)}`, { wait: String(seconds) });
    const job = await patiently(ask, { lost, deadline });
    if (job.finishedAt !== null) return job;
    onJob?.(job);
    if (performance.now() >= deadline) {
      const why = job.reason ? `: ${job.reason}` : "";
      throw timeIsUp(`job ${id} is still ${listedState(job)} after ${timeoutSeconds} s${why}`);
    }
  }
}

/** When so many seconds are over, by a clock that nobody sets (`performance.now()`). */
export function deadlineOf(timeoutSeconds: number | undefined): number {
  return timeoutSeconds === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutSeconds * 1000;
}

/** The failure of a command that would have waited longer. */
export function timeIsUp(message: string): CliError {
  return new CliError(message, { code: "Timeout", exitCode: EXIT.timeIsUp });
}

/** What a command ends with that waited for jobs: the worst of them. */
export function exitCodeOfJobs(jobs: readonly { readonly state: Job["state"] | FateState }[]): number {
  if (jobs.some(({ state }) => state === "failure")) return EXIT.jobFailed;
  return jobs.some(({ state }) => state === "killed") ? EXIT.jobStopped : EXIT.done;
}
