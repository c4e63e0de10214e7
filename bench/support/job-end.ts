import { setTimeout as pause } from "node:timers/promises";
import type { Job } from "../../protocol/pipelines.ts";
import type { Control } from "./control.ts";

const PROBE_EVERY_MS = 2;

export interface JobWait {
  readonly pipeline: string;
  /** The commit on the input that made the job; absent: the newest job, whatever made it. */
  readonly commit?: string;
  readonly probeEveryMs?: number;
  /** Called with the job as it is at each probe. */
  readonly progress?: (job: Job) => void;
}

/** Waits until the newest job of a pipeline with one input is a success; any other end is an error. */
export async function newestJobEnd(
  control: Control,
  { pipeline, commit, probeEveryMs = PROBE_EVERY_MS, progress }: JobWait,
): Promise<Job> {
  for (;;) {
    const job = await control.newestJob(pipeline);
    if (job && (commit === undefined || job.inputs[0]?.commit === commit)) {
      progress?.(job);
      if (job.state === "success") return job;
      if (job.finishedAt !== null) throw new Error(`job ${job.id} of ${pipeline}: ${job.reason}`);
    }
    await pause(probeEveryMs);
  }
}
