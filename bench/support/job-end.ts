import { setTimeout as pause } from "node:timers/promises";
import type { Job } from "../../protocol/pipelines.ts";
import type { Control } from "./control.ts";

const PROBE_EVERY_MS = 2;
/** What takes longer has stopped half-way: the row breaks, the run goes on. */
const GIVE_UP_MS = 20 * 60 * 1000;

export interface JobWait {
  readonly pipeline: string;
  /** The commit on the input that made the job. */
  readonly commit: string;
  readonly probeEveryMs?: number;
}

/** Waits until the newest job of a pipeline with one input is a success; any other end is an error. */
export async function newestJobEnd(
  control: Control,
  { pipeline, commit, probeEveryMs = PROBE_EVERY_MS }: JobWait,
): Promise<Job> {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAt) {
    const job = await control.newestJob(pipeline);
    if (job?.inputs[0]?.commit === commit) {
      if (job.state === "success") return job;
      if (job.finishedAt !== null) throw new Error(`job ${job.id} of ${pipeline}: ${job.reason}`);
    }
    await pause(probeEveryMs);
  }
  throw new Error(`the job of ${pipeline} did not end in time`);
}
