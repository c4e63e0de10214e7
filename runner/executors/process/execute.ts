import { type ChildProcess, type SpawnOptions, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readdirSync, readFileSync } from "node:fs";
import { constants as os } from "node:os";
import type { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import type { LogStream } from "../../../protocol/runner.ts";
import { listening } from "../../lib/concurrency.ts";
import { findTool, killProcess } from "../../lib/system-calls.ts";
import type { LauncherOptions } from "../../limits/confinement.ts";
import { FIRST_DATA_FD, type Launch } from "./jail.ts";

const { signals } = os;

/** What a tool left behind when it ended. Plain data: it crosses from the launcher's process. */
export interface Ended {
  /** The tool's exit code: 128 + n if signal n ended it; null if it did not start. */
  readonly code: number | null;
  /** What it wrote to file descriptor 3. */
  readonly report: string;
  /** Why it could not be started at all. */
  readonly refused?: string;
}

export interface ExecuteOptions {
  /** FIFOs whose readers are there: what is printed on each stream goes into its own. */
  readonly output: Readonly<Record<LogStream, string>>;
  /** What is printed on stderr goes to that of stdout. */
  readonly joined?: boolean | undefined;
  readonly stdin: string;
  readonly signal: AbortSignal;
}

/**
 * Starts the tool and waits until it has ended.
 *
 * The command's stdin is a file, its stdout and stderr are FIFOs, all opened anew each time: what Node makes for "pipe" are
 * sockets, which a script can't open as /dev/stdin or /dev/stderr.
 */
export async function execute(launch: Launch, { signal, ...files }: ExecuteOptions): Promise<Ended> {
  const child = start(launch, files);
  if (child instanceof Error) return { code: null, report: "", refused: child.message };
  await mustHaveFiles(child);
  writeData(child, launch);
  const kill = () => child.pid !== undefined && killProcess(-child.pid);
  const [code, report] = await Promise.all([exitOf(child, { signal, kill }), readReport(child)]);
  return { code, report };
}

export interface OnTerminal extends Pick<LauncherOptions, "through" | "enter"> {
  readonly signal: AbortSignal;
}

/**
 * Like `execute`, with the terminal of this process as the tool's stdin, stdout and stderr. It is a child of this process
 * and in its session, since a terminal belongs to one session.
 */
export async function executeOnTerminal(launch: Launch, terms: OnTerminal): Promise<Ended> {
  const { enter, signal } = terms;
  const command = await gated(launch, terms);
  const child = spawnOnTerminal(command, launch);
  if (child instanceof Error) return { code: null, report: "", refused: child.message };
  await mustHaveFiles(child);
  writeData(child, launch);
  const ended = Promise.all([
    exitOf(child, { signal, kill: () => child.kill("SIGKILL") }),
    readReport(child),
  ]);
  if (enter && child.pid !== undefined) {
    await enter(child.pid).catch((error: unknown) => {
      child.kill("SIGKILL");
      throw error;
    });
    (child.stdio[REPORT_FD] as Writable).write("\n");
  }
  const [code, report] = await ended;
  return { code, report };
}

const REPORT_FD = 3;

/** The words that start the tool. If it has to enter something first, a shell waits for a line that says that it has. */
async function gated({ file, args }: Launch, { through, enter }: OnTerminal): Promise<string[]> {
  const before = through ?? [];
  if (!enter) return [...before, file, ...args];
  const sh = (await findTool("sh")) ?? "/bin/sh";
  return [...before, sh, "-c", `read -r _ <&${REPORT_FD}; exec "$@"`, "sh", file, ...args];
}

function spawnOnTerminal([file = "", ...args]: string[], { env, data }: Launch): ChildProcess | Error {
  closeInherited();
  return spawned(file, args, {
    env,
    stdio: ["inherit", "inherit", "inherit", "pipe", ...data.map(() => PIPE)],
  });
}

const PIPE = "pipe" as const;

/** Returns the error if arguments and environment are larger than the kernel takes. */
function spawned(file: string, args: readonly string[], options: SpawnOptions): ChildProcess | Error {
  try {
    return spawn(file, args, options);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/**
 * Spawns it in a session of its own, so that Ctrl-C in the runner's terminal asks the runner to stop, and kills no
 * command. Our ends of its files are closed when this returns: the end of the command is then the end of the log.
 */
function start(
  launch: Launch,
  { output, stdin, joined }: Omit<ExecuteOptions, "signal">,
): ChildProcess | Error {
  const opened: number[] = [];
  try {
    const open = (descriptor: number): number => {
      opened.push(descriptor);
      return descriptor;
    };
    const input = open(openSync(stdin, constants.O_RDONLY));
    const out = open(openOutput(output.stdout));
    // If nothing is to come there, it is opened all the same: its reader has its end when it is closed.
    const err = open(openOutput(output.stderr));
    const { file, args, env, data } = launch;
    const stdio = [input, out, joined ? out : err, PIPE, ...data.map(() => PIPE)] satisfies StdioOptions;
    return spawned(file, args, { env, stdio, detached: true });
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
  }
}

/** Opens a FIFO to write. Its reader is the agent. A reader of our own keeps the open from waiting for ever if the agent has just died. */
function openOutput(path: string): number {
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return openSync(path, constants.O_WRONLY);
  } finally {
    closeSync(reader);
  }
}

/** Throws if there were no file handles for its pipes: Node makes a child all the same, that has no streams, and tells of it later. */
async function mustHaveFiles(child: ChildProcess): Promise<void> {
  if (child.stdio !== undefined) return;
  const [error] = await once(child, "error");
  throw error;
}

function readReport(child: ChildProcess): Promise<string> {
  return text(child.stdio[REPORT_FD] as Readable);
}

function writeData(child: ChildProcess, { data }: Launch): void {
  for (const [index, bytes] of data.entries()) {
    const to = child.stdio[FIRST_DATA_FD + index] as Writable;
    // A tool that ends before it has read its data says itself what is wrong.
    to.on("error", () => undefined);
    to.end(Buffer.from(bytes, "base64"));
  }
}

function exitOf(
  child: ChildProcess,
  { signal, kill }: { signal: AbortSignal; kill: () => void },
): Promise<number | null> {
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.once("error", () => resolve(null));
  child.once("exit", (code, name) => {
    // The tool itself was killed, perhaps before it had bound its children's lives to its own.
    if (name) kill();
    resolve(code ?? 128 + (name ? signals[name] : 0));
  });
  return listening({ signal, onAbort: kill }, () => promise);
}

const FIRST_BEYOND_STDIO = 3;
/** O_CLOEXEC as open(2) has it on Linux, on every processor that Node runs on. */
const CLOSE_ON_EXEC = 0o2000000;

/**
 * Closes the files that whoever started this process left open in it, so that no program which it starts has them: such
 * a file may be one that commands do not see by its path. Node opens its own with a mark that keeps them from other
 * programs, so what lacks the mark was inherited. Node sets the mark on inherited ones too, but only up to the first gap.
 */
export function closeInherited(): void {
  for (const name of readdirSync("/proc/self/fd")) {
    const descriptor = Number(name);
    if (descriptor < FIRST_BEYOND_STDIO || !isInheritable(descriptor)) continue;
    closeSync(descriptor);
  }
}

function isInheritable(descriptor: number): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8");
    const flags = /^flags:\s*([0-7]+)$/m.exec(info)?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // It is closed: the list of them was read through one.
    return false;
  }
}
