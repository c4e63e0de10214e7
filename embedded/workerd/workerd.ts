import { execFileSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { HostError } from "../host-error.ts";

const CHILD_SCRIPT = join(import.meta.dirname, "workerd-child.sh");
const DEATH_WAIT_MS = 10_000;
const DEATH_PROBE_MS = 20;
/** The flag of a process that is dying (include/linux/sched.h). */
const PF_EXITING = 0x4;

/**
 * What keeps V8's collections from stopping the one thread for long.
 *
 * Half of the young generation has at most 2 MiB. V8 lets it grow to 16, and each collection of that takes 10 ms and
 * more; one of this takes 2 ms, and all of them together take no longer.
 *
 * All of the heap is looked through when it has grown by three times what the last such collection left. V8 itself does
 * it at less than double, which is after 10 MB, every second under load, for 40 ms each: they were the slowest hundredth
 * of writes.
 */
const V8_FLAGS = "--max-semi-space-size=2 --heap-growing-percent=300";

/**
 * Makes every workerd that Miniflare starts from now on in this process run under `workerd-child.sh`, with the flags of
 * V8 above before those that are in the environment. Returns the environment that the script needs for this data folder.
 */
export function workerdEnvironment(dataDir: string): Record<string, string> {
  const flags = process.env.MINIFLARE_WORKERD_V8_FLAGS ?? "";
  if (!flags.startsWith(V8_FLAGS)) process.env.MINIFLARE_WORKERD_V8_FLAGS = `${V8_FLAGS} ${flags}`.trim();
  const installed: unknown = process.env.MINIFLARE_WORKERD_PATH;
  const own = typeof installed === "string" && installed !== CHILD_SCRIPT ? installed : undefined;
  process.env.MINIFLARE_WORKERD_PATH = CHILD_SCRIPT;
  return {
    SLUICE_WORKERD: own ?? workerdBinary(),
    SLUICE_HOST_PID: String(process.pid),
    SLUICE_WORKERD_PID_FILE: pidFile(dataDir),
  };
}

/**
 * Ends a workerd that a killed gateway left over this data folder, or waits for the end of one that is dying, so that its
 * port and files are free. The caller holds the lock.
 */
export async function endOrphan(dataDir: string): Promise<void> {
  const pid = workerdPid(dataDir);
  const orphan = pid === undefined ? undefined : processOf(pid);
  if (pid === undefined || !orphan) return;
  if (isWorkerdOf(pid, dataDir)) process.kill(pid, "SIGKILL");
  else if (!orphan.ending) return;
  const deadline = performance.now() + DEATH_WAIT_MS;
  while (processOf(pid)?.start === orphan.start) {
    if (performance.now() > deadline)
      throw new HostError(`the runtime with pid ${pid} over ${dataDir} does not end; end it first`);
    await pause(DEATH_PROBE_MS);
  }
  rmSync(pidFile(dataDir), { force: true });
}

/** The pid of the workerd that serves, or served, a data folder. */
export function workerdPid(dataDir: string): number | undefined {
  try {
    const pid = Number(readFileSync(pidFile(dataDir), "utf8"));
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

function pidFile(dataDir: string): string {
  return join(dataDir, "workerd.pid");
}

// A pid may belong to a stranger by now. Ours carries the name of its pid file in its environment.
function isWorkerdOf(pid: number, dataDir: string): boolean {
  return environmentOf(pid).includes(`SLUICE_WORKERD_PID_FILE=${pidFile(dataDir)}`);
}

function environmentOf(pid: number): string {
  try {
    if (process.platform === "linux") return readFileSync(`/proc/${pid}/environ`, "utf8");
    return ps(pid, "command=", "-wwE");
  } catch {
    return "";
  }
}

function ps(pid: number, fields: string, ...options: string[]): string {
  return execFileSync("ps", [...options, "-o", fields, "-p", String(pid)], { encoding: "utf8" });
}

interface Process {
  /** A text that no other process with its pid has. */
  readonly start: string;
  /** It is dying: its memory, and with that its environment, goes long before its files and ports are closed. */
  readonly ending: boolean;
}

/** The process with this pid. Undefined if none has it, or if the last thread of the one that has it has ended. */
function processOf(pid: number): Process | undefined {
  try {
    return process.platform === "linux" ? processOnLinux(pid) : processByPs(pid);
  } catch {
    return undefined;
  }
}

// The fields are those of proc_pid_stat(5). The first thread of a process may be dead while others still hold its files.
function processOnLinux(pid: number): Process | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The second field, the name, may have spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const field = (number: number) => fields[number - 3] ?? "";
  if ("ZX".includes(field(3)) && Number(field(20)) <= 1) return undefined;
  return { start: field(22), ending: (Number(field(9)) & PF_EXITING) !== 0 };
}

function processByPs(pid: number): Process | undefined {
  const [, state = "Z", start = ""] = /^(\S+)\s+(.+)/.exec(ps(pid, "stat=,lstart=")) ?? [];
  return state.startsWith("Z") ? undefined : { start, ending: state.includes("E") };
}

/** The binary that Miniflare itself would take. */
function workerdBinary(): string {
  const miniflare = createRequire(createRequire(import.meta.url).resolve("miniflare"));
  const workerd: { default: string } = miniflare("workerd");
  return workerd.default;
}
