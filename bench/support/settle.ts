import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type LeasedDatum, MAX_BATCH, type Outcome } from "../../protocol/runner.ts";
import type { Control } from "./control.ts";

/** Workers that the pipeline must have: one leases while another's results are recorded. */
const SETTLERS = 2;
/** Before a worker asks again that got nothing. */
const PAUSE_MS = 10;

/**
 * Has the datums of a pipeline with one input settled while `work` goes on, without a command being run: each as a
 * success with one small output, at the path of its input. Leased and finished in full batches, so that what is left
 * is what the gateway takes. The workers leave in the end: their slots are free at once.
 */
export async function withSettlers<T>(
  control: Control,
  { pipeline, work }: { pipeline: string; work: () => Promise<T> },
): Promise<T> {
  const ended = new AbortController();
  const settlers = Array.from({ length: SETTLERS }, (_, i) =>
    settle(control, { pipeline, worker: `settler/${pipeline}/${i}`, ended: ended.signal }),
  );
  // A settler that fails ends the work; one that is told to stop does not.
  const failed = Promise.all(settlers).then(() => new Promise<never>(() => {}));
  try {
    return await Promise.race([work(), failed]);
  } finally {
    ended.abort();
    await Promise.allSettled(settlers);
  }
}

/** Settles the datums of one lease call, of which there must be some. */
export async function settleOnce(control: Control, pipeline: string): Promise<void> {
  const { runner, signal } = control;
  const worker = `settler/${pipeline}/once`;
  const { datums } = await runner.lease({ pipeline, node: "settler", worker, max: MAX_BATCH }, signal);
  if (datums.length === 0) throw new Error(`no datum of ${pipeline} waits`);
  await runner.finish({ pipeline, worker, outcomes: datums.map(success) }, signal);
}

async function settle(
  control: Control,
  { pipeline, worker, ended }: { pipeline: string; worker: string; ended: AbortSignal },
): Promise<void> {
  const { runner, signal } = control;
  while (!ended.aborted) {
    const request = { pipeline, node: "settler", worker, max: MAX_BATCH };
    const { datums } = await runner.lease(request, ended).catch((error: unknown) => {
      if (ended.aborted) return { datums: [] };
      throw error;
    });
    if (datums.length === 0) await pause(PAUSE_MS);
    else await runner.finish({ pipeline, worker, outcomes: datums.map(success) }, signal);
  }
  await runner.renew({ pipeline, worker, leases: [], leaving: true }, signal);
}

function success({ lease, datum, inputs }: LeasedDatum): Outcome {
  const bytes = Buffer.from(`${datum}\n`);
  const output = {
    path: inputs[0]?.path ?? "",
    digest: createHash("sha256").update(bytes).digest("hex"),
    size: bytes.length,
    bytes: bytes.toString("base64"),
  };
  return {
    lease,
    state: "success",
    exitCode: 0,
    outputs: [output],
    millis: 1,
    ran: { executor: "process", image: null },
  };
}
