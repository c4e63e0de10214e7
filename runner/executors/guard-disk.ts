import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Space, sizeText, spaceOf } from "../lib/sizes.ts";
import { FreeSpace, folderSize } from "../limits/free-space.ts";
import { type Command, type Executor, KILLED, type Run, type Sandbox } from "./executor.ts";

export interface GuardOptions {
  /** Bytes that a datum may have in `/pfs/out`; absent: as many as the disk holds. */
  readonly outBytes: number | undefined;
  /** This node's name, for reasons. */
  readonly node: string;
  /** The node's data folder. */
  readonly dataDir: string;
}

/** The executor, with commands stopped that write more than they may, or are about to fill the node's disk. */
export function guardDisk(executor: Executor, { outBytes, node, dataDir }: GuardOptions): Executor {
  const space = new FreeSpace({ node, look: () => spaceOf(dataDir) });
  return {
    get name() {
      return executor.name;
    },
    async prepare(request) {
      const sandbox = await executor.prepare(request);
      const run = (command: Command) => runGuarded(sandbox, command, { outBytes, node, space });
      return { run, close: () => sandbox.close() };
    },
    close: () => executor.close(),
  };
}

interface Guards extends Pick<GuardOptions, "outBytes" | "node"> {
  readonly space: FreeSpace;
}

async function runGuarded(sandbox: Sandbox, command: Command, guards: Guards): Promise<Run> {
  const { outBytes } = guards;
  const out = join(command.pfs, "out");
  const halt = new AbortController();
  const ended = new AbortController();
  let fault: DiskFault | undefined;
  const stop = (why: DiskFault) => {
    fault ??= why;
    halt.abort();
  };
  // That the node's disk is full is not this command's fault alone: others filled it, too.
  const leave = guards.space.enter({ out, stop: (reason) => stop({ reason, failureClass: "node" }) });
  const onOver = () => stop({ reason: tooMuch(guards) });
  const watching =
    outBytes !== undefined && watchOut({ out, quotaBytes: outBytes, onOver, signal: ended.signal });
  try {
    const run = await sandbox.run({ ...command, signal: AbortSignal.any([command.signal, halt.signal]) });
    if (!fault && outBytes !== undefined && run.kind !== "not-started") {
      // Once more after the end: it may have left too much although nobody saw it grow. Holes count here: they would be stored.
      const looking = { enough: outBytes, command: "ended", signal: command.signal } as const;
      const { taken, apparent } = await folderSize(out, looking);
      if (Math.max(taken, apparent) > outBytes) fault = { reason: tooMuch(guards) };
    }
    const told = judged(run, fault, guards);
    if (!isUnexplained(told)) return told;
    const short = await guards.space.shortage();
    return short ? failedForRoom(told, short, guards) : told;
  } finally {
    leave();
    ended.abort();
    await watching;
  }
}

type Exited = Extract<Run, { kind: "exited" }>;

/** Whether a command failed, and nothing is known of why. */
function isUnexplained(run: Run): run is Exited {
  return run.kind === "exited" && run.code !== 0 && run.fault === undefined && run.cause === undefined;
}

/** Nobody sees the writes that fail in a command. If there is little room for any, the node is taken to be the cause: others filled its disk, too. */
function failedForRoom(run: Exited, { freeBytes }: Space, { node }: Guards): Run {
  const cause = `the command ended with exit code ${run.code} while the disk of node ${node} was nearly full (${sizeText(freeBytes)} are free)`;
  return { ...run, cause, failureClass: "node" };
}

interface DiskFault {
  readonly reason: string;
  /** Absent: the command's. */
  readonly failureClass?: "node";
}

function tooMuch({ outBytes = 0, node }: Guards): string {
  return `the command wrote more than ${sizeText(outBytes)} to /pfs/out (--disk of node ${node})`;
}

// Executors also set the quota as the largest size of a file, if they can.
const FILE_TOO_LARGE = 128 + constants.signals.SIGXFSZ;

function exited(run: Run): Exited {
  return run.kind === "exited" ? run : { kind: "exited", code: KILLED, log: run.log };
}

function judged(run: Run, fault: DiskFault | undefined, { outBytes, node }: Guards): Run {
  if (fault) {
    const { reason, failureClass } = fault;
    return { ...exited(run), fault: reason, ...(failureClass && { failureClass }) };
  }
  if (run.kind === "not-started") return run;
  if (run.code !== FILE_TOO_LARGE || outBytes === undefined || run.cause !== undefined) return run;
  const cause = `the command wrote a file larger than ${sizeText(outBytes)} (--disk of node ${node})`;
  return { ...run, cause };
}

interface OutWatchOptions {
  readonly out: string;
  readonly quotaBytes: number;
  /** Called once, when there is more. */
  readonly onOver: () => void;
  readonly signal: AbortSignal;
}

const LEAST_PAUSE_MS = 100;
/** Looking takes no more than one part in so many of the time. */
const SHARE_OF_TIME = 10;

/** Looks again and again at how much lies in `/pfs/out` while a command runs. Never fails. */
async function watchOut({ out, quotaBytes, onOver, signal }: OutWatchOptions): Promise<void> {
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
