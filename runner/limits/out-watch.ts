import { setTimeout as delay } from "node:timers/promises";
import { folderSize } from "./folder-size.ts";

export interface OutWatchOptions {
  /** The folder that is `/pfs/out`. */
  readonly out: string;
  /** Bytes that may lie there. */
  readonly quotaBytes: number;
  /** Called once, when there is more. */
  readonly onOver: () => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

const LEAST_PAUSE_MS = 100;
/** Of the time, looking takes no more than one part in so many. */
const SHARE_OF_TIME = 10;

/** Looks again and again at how much lies in `/pfs/out` while a command runs. Never fails. */
export async function watchOut({ out, quotaBytes, onOver, signal }: OutWatchOptions): Promise<void> {
  let pauseMs = LEAST_PAUSE_MS;
  while (await passed(pauseMs, signal)) {
    const began = performance.now();
    const { taken } = await folderSize(out, { enough: quotaBytes, command: "running", signal });
    if (signal.aborted) return;
    if (taken > quotaBytes) return onOver();
    pauseMs = Math.max(LEAST_PAUSE_MS, (performance.now() - began) * SHARE_OF_TIME);
  }
}

/** Whether the time has passed without an abort. */
function passed(millis: number, signal: AbortSignal): Promise<boolean> {
  return delay(millis, true, { signal, ref: false }).catch(() => false);
}
