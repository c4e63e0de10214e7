import { setTimeout as pause } from "node:timers/promises";
import type { Job } from "../../protocol/pipelines.ts";
import { type LeasedDatum, MAX_BATCH, type Outcome } from "../../protocol/runner.ts";
import type { Control } from "./control.ts";
import { newestJobEnd } from "./job-end.ts";

/** Workers that the pipeline must have: one leases while another's results are recorded. */
export const SETTLERS = 2;

/**
 * Settles every datum of the first job of a pipeline without running anything: as a success without output, leased
 * and finished in full batches. Answers the job as it ended.
 */
export async function settleFirstJob(control: Control, pipeline: string): Promise<Job> {
  const ended = new AbortController();
  const settlers = Array.from({ length: SETTLERS }, (_, i) =>
    settle(control, { pipeline, worker: `settler/${pipeline}/${i}`, ended: ended.signal }),
  );
  // A settler that fails ends the wait; one that is told to stop does not.
  const failed = Promise.all(settlers).then(() => new Promise<never>(() => {}));
  try {
    return await Promise.race([newestJobEnd(control, { pipeline, probeEveryMs: 250 }), failed]);
  } finally {
    ended.abort();
    await Promise.allSettled(settlers);
  }
}

async function settle(
  control: Control,
  { pipeline, worker, ended }: { pipeline: string; worker: string; ended: AbortSignal },
): Promise<void> {
  while (!ended.aborted) {
    const request = { pipeline, node: "settler", worker, max: MAX_BATCH };
    const { datums } = await control.runner.lease(request, ended).catch((error: unknown) => {
      if (ended.aborted) return { datums: [] };
      throw error;
    });
    if (datums.length === 0) await pause(10);
    else await control.runner.finish({ pipeline, worker, outcomes: datums.map(success) }, control.signal);
  }
}

function success({ lease }: LeasedDatum): Outcome {
  return { lease, state: "success", exitCode: 0, outputs: [], millis: 1 };
}
