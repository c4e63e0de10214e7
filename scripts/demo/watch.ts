import { setTimeout as pause } from "node:timers/promises";
import type { Client } from "../../cli/gateway/client.ts";
import { type Job, JobPage } from "../../protocol/pipelines.ts";

const PROBE_EVERY_MS = 100;

/** The demo did not come out as it must; the message says what differs. */
export class DemoError extends Error {
  override readonly name = "DemoError";
}

export interface Awaited {
  readonly pipeline: string;
  /** 1 is the pipeline's first job. */
  readonly number: number;
  readonly deadline: number;
}

/** Waits until a pipeline's n-th job has succeeded, and is its newest. */
export async function jobDone(client: Client, { pipeline, number, deadline }: Awaited): Promise<Job> {
  for (;;) {
    const { jobs } = await client.call(JobPage, {
      method: "GET",
      path: "/jobs",
      query: { pipeline, limit: "10" },
    });
    const [newest] = jobs;
    if (jobs.length > number)
      throw new DemoError(`${pipeline} made ${jobs.length} jobs instead of ${number}`);
    if (newest?.state === "failure")
      throw new DemoError(`job ${newest.id} of ${pipeline} failed: ${newest.reason}`);
    if (newest?.state === "success" && jobs.length === number) return newest;
    if (Date.now() > deadline)
      throw new DemoError(`job ${number} of ${pipeline} does not end: ${describe(newest)}`);
    await pause(PROBE_EVERY_MS);
  }
}

function describe(job: Job | undefined): string {
  return job ? `it is ${job.state}${job.reason ? `, ${job.reason}` : ""}` : "it was never made";
}
