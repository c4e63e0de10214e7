import { type ChildProcess, execFile, type StdioOptions, spawn } from "node:child_process";
import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { Socket } from "node:net";
import { constants as os } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { errorCode } from "../fault.ts";
import type { Command, Executor, PrepareRequest, Run, Sandbox } from "./executor.ts";
import type { Jail, Launch, Started } from "./jail.ts";
import { LogTail } from "./log-tail.ts";

const { signals } = os;

/** Runs commands as processes of this machine, with its own tools: the image is ignored. */
export function processExecutor(jail: Jail): Executor {
  return { name: "process", prepare: (request) => prepare(jail, request) };
}

async function prepare(jail: Jail, { dir }: PrepareRequest): Promise<Sandbox> {
  await promisify(execFile)("mkfifo", ["-m", "600", join(dir, "log")]);
  await jail.prepare(dir);
  return new ProcessSandbox(jail, dir);
}

class ProcessSandbox implements Sandbox {
  readonly #jail: Jail;
  readonly #dir: string;
  #stdin: string | null = null;

  constructor(jail: Jail, dir: string) {
    this.#jail = jail;
    this.#dir = dir;
  }

  async run({ pfs, cmd, env, stdin, signal }: Command): Promise<Run> {
    await this.#writeStdin(stdin);
    const launch = this.#jail.launch({ dir: this.#dir, pfs, cmd, env });
    const files = { log: join(this.#dir, "log"), stdin: stdin === null ? "/dev/null" : this.#stdinFile };
    const ended = await execute(launch, { ...files, signal });
    const started = this.#jail.read(ended);
    if (started.init !== null) await processEnd(started.init);
    return runOf(started, { tool: this.#jail.tool, name: cmd[0] ?? "", ended });
  }

  async close(): Promise<void> {}

  get #stdinFile(): string {
    return join(this.#dir, "stdin");
  }

  /** Most often it is what the datum before had. */
  async #writeStdin(stdin: string | null): Promise<void> {
    if (stdin === null || stdin === this.#stdin) return;
    await writeFile(this.#stdinFile, stdin, { mode: 0o600 });
    this.#stdin = stdin;
  }
}

interface Ended {
  /** Of the tool: 128 + n where signal n ended it; null where it did not start. */
  readonly code: number | null;
  readonly report: string;
  readonly log: string;
}

interface ExecuteOptions {
  /** A FIFO. */
  readonly log: string;
  readonly stdin: string;
  readonly signal: AbortSignal;
}

/**
 * Starts the tool and waits until it has ended and all of its output is read.
 *
 * The command's stdin is a file and its stdout a FIFO, opened anew each time: what Node makes for "pipe" are
 * sockets, which a script can't open as /dev/stdin or /dev/stderr.
 */
async function execute(launch: Launch, { log, stdin, signal }: ExecuteOptions): Promise<Ended> {
  const text = readLog(openSync(log, constants.O_RDONLY | constants.O_NONBLOCK));
  const child = start(launch, { log, stdin });
  if (child instanceof Error) return { code: null, report: "", log: `${await text}${child.message}` };
  const [code, report] = await Promise.all([exitOf(child, signal), readReport(child)]);
  return { code, report, log: await text };
}

/**
 * Spawns it in a session of its own, so that Ctrl-C in the runner's terminal asks the runner to stop, and kills no
 * command. Our ends of its files are closed when this returns: the end of the command is then the end of the log.
 */
function start(launch: Launch, { log, stdin }: Omit<ExecuteOptions, "signal">): ChildProcess | Error {
  const input = openSync(stdin, constants.O_RDONLY);
  // Does not block: the reader is there.
  const output = openSync(log, constants.O_WRONLY);
  try {
    const stdio: StdioOptions = [input, output, output, "pipe"];
    return spawn(launch.file, launch.args, { env: { ...launch.env }, stdio, detached: true });
  } catch (error) {
    // Arguments and environment beyond what the kernel takes.
    return error instanceof Error ? error : new Error(String(error));
  } finally {
    closeSync(output);
    closeSync(input);
  }
}

/** Reads to the end, so that the command never waits for us, and keeps the last of it. */
async function readLog(descriptor: number): Promise<string> {
  const tail = new LogTail();
  const socket = new Socket({ fd: descriptor, readable: true, writable: false });
  for await (const chunk of socket as AsyncIterable<Buffer>) tail.add(chunk);
  return tail.text();
}

async function readReport(child: ChildProcess): Promise<string> {
  let report = "";
  for await (const chunk of child.stdio[3] as Readable) report += String(chunk);
  return report;
}

function exitOf(child: ChildProcess, signal: AbortSignal): Promise<number | null> {
  const { promise, resolve } = Promise.withResolvers<number | null>();
  const kill = () => killGroup(child.pid);
  signal.addEventListener("abort", kill, { once: true });
  if (signal.aborted) kill();
  child.once("error", () => resolve(null));
  child.once("exit", (code, name) => resolve(code ?? 128 + (name ? signals[name] : 0)));
  return promise.finally(() => signal.removeEventListener("abort", kill));
}

function killGroup(leader: number | undefined): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, "SIGKILL");
  } catch (error) {
    if (errorCode(error) !== "ESRCH") throw error;
  }
}

/**
 * Waits for the first process of the command's pid namespace, which was told to end. The kernel ends it after all
 * the others there, so that from then on nothing writes to `/pfs/out`.
 */
async function processEnd(pid: number): Promise<void> {
  while (isAlive(pid)) await delay(1);
}

// Synchronous: most often it is gone, and the kernel answers at once.
function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const state = stat[stat.lastIndexOf(")") + 2];
    return state !== "Z" && state !== "X";
  } catch {
    return false;
  }
}

const OWN_TOOLS = "The process executor ignores the image and uses this machine's tools";

function runOf(
  started: Started,
  { tool, name, ended: { code, log } }: { tool: string; name: string; ended: Ended },
): Run {
  switch (started.kind) {
    case "started":
      return { kind: "exited", code: code ?? 0, log };
    case "no-command":
      return {
        kind: "not-started",
        reason: `the command "${name}" was not found or can't be executed. ${OWN_TOOLS}`,
        log,
      };
    case "no-jail":
      return { kind: "not-started", reason: `${tool} could not start the command: ${lastLine(log)}`, log };
  }
}

function lastLine(log: string): string {
  return log.trimEnd().split("\n").at(-1) || "it ended without a word";
}
