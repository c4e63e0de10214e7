import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { Socket } from "node:net";
import { constants as os } from "node:os";
import type { Readable, Writable } from "node:stream";
import { errorCode } from "../fault.ts";
import { FIRST_DATA_FD, type Launch } from "./jail.ts";
import { LogTail } from "./log-tail.ts";

const { signals } = os;

/** What a tool left behind when it ended. Plain data: it crosses from the launcher's process. */
export interface Ended {
  /** Of the tool: 128 + n where signal n ended it; null where it did not start. */
  readonly code: number | null;
  readonly report: string;
  readonly log: string;
}

export interface ExecuteOptions {
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
export async function execute(launch: Launch, { log, stdin, signal }: ExecuteOptions): Promise<Ended> {
  const text = readLog(openSync(log, constants.O_RDONLY | constants.O_NONBLOCK));
  const child = start(launch, { log, stdin });
  if (child instanceof Error) return { code: null, report: "", log: `${await text}${child.message}` };
  writeData(child, launch);
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
    const stdio: StdioOptions = [input, output, output, "pipe", ...launch.data.map(() => "pipe" as const)];
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

function writeData(child: ChildProcess, { data }: Launch): void {
  for (const [index, bytes] of data.entries()) {
    const to = child.stdio[FIRST_DATA_FD + index] as Writable;
    // A tool that ends before it has read it has more to say itself.
    to.on("error", () => undefined);
    to.end(Buffer.from(bytes, "base64"));
  }
}

function exitOf(child: ChildProcess, signal: AbortSignal): Promise<number | null> {
  const { promise, resolve } = Promise.withResolvers<number | null>();
  const kill = () => killGroup(child.pid);
  signal.addEventListener("abort", kill, { once: true });
  if (signal.aborted) kill();
  child.once("error", () => resolve(null));
  child.once("exit", (code, name) => {
    // The tool itself was killed, perhaps before it had bound its children's lives to its own.
    if (name) kill();
    resolve(code ?? 128 + (name ? signals[name] : 0));
  });
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
