import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { HostError } from "../host-error.ts";
import { findOwing, type Scrubbed, type ScrubOptions, scrub } from "./scrub.ts";

type Task = Pick<ScrubOptions, "stateDir" | "extent" | "now">;

/** By this a thread knows that it was started here. */
const MARK = "sluice-scrub";

/**
 * A scrub on a thread of its own, so that this one goes on: it answers clients and hears signals. The thread is started only if
 * there is something to do. `signal`: the scrub is given up, at any step, as by a crash. Undefined: nothing was owed.
 */
export async function scrubApart(
  task: Task,
  { signal }: { signal?: AbortSignal } = {},
): Promise<Scrubbed | undefined> {
  if (signal?.aborted) throw new HostError("the scrub was given up");
  if (findOwing(task).length === 0) return undefined;
  const thread = new Worker(import.meta.filename, { workerData: { mark: MARK, task } });
  const giveUp = (): void => void thread.terminate();
  signal?.addEventListener("abort", giveUp);
  try {
    return await new Promise<Scrubbed>((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
      thread.once("exit", () => reject(new HostError("the scrub was given up")));
    });
  } finally {
    signal?.removeEventListener("abort", giveUp);
  }
}

if (!isMainThread && workerData?.mark === MARK) parentPort?.postMessage(scrub(workerData.task));
