import { type ChildProcess, spawn } from "node:child_process";

/** A process that a test started, as the leader of its own process group. */
export interface Started {
  readonly pid: number;
  /** Settles when the process has ended and its output is read to the end. */
  readonly ended: Promise<Ended>;
  /** What it has printed so far, stdout and stderr mixed. */
  output(): string;
  /** Whether a signal was sent to it from here. */
  wasTold(): boolean;
  /** Sends a signal to the whole group. */
  signal(signal: NodeJS.Signals): void;
  /** SIGTERM to the group; SIGKILL where it has not ended after STOP_GRACE_MS. Fine where it has ended already. */
  stop(): Promise<void>;
  /** SIGKILL to the group, at once. */
  kill9(): Promise<void>;
}

export interface Ended {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface Start {
  /** The whole environment: nothing is inherited but PATH. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string;
}

const STOP_GRACE_MS = 10_000;
const groups = new Set<number>();

// A failed or interrupted test run must not leave servers behind: what is still there when this process goes, goes with it.
process.once("exit", () => {
  for (const pid of groups) signalGroup(pid, "SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));

/** Starts a program in a process group of its own. */
export function start(command: readonly string[], { env = {}, cwd, input }: Start = {}): Started {
  const [program = "", ...args] = command;
  const child = spawn(program, args, {
    detached: true,
    env: { PATH: process.env.PATH ?? "", ...env },
    ...(cwd === undefined ? {} : { cwd }),
    stdio: ["pipe", "pipe", "pipe"],
  });
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${program} could not be started`);
  groups.add(pid);

  const printed: { readonly to: "stdout" | "stderr"; readonly bytes: Buffer }[] = [];
  const text = (to: "stdout" | "stderr"): Buffer =>
    Buffer.concat(printed.filter((piece) => piece.to === to).map(({ bytes }) => bytes));
  child.stdout.on("data", (bytes: Buffer) => printed.push({ to: "stdout", bytes }));
  child.stderr.on("data", (bytes: Buffer) => printed.push({ to: "stderr", bytes }));
  // A program may end without reading its input.
  child.stdin.on("error", () => {});
  child.stdin.end(input ?? "");

  const ended = endOf(child).then(({ code, signal }) => ({
    code,
    signal,
    stdout: text("stdout"),
    stderr: text("stderr").toString(),
  }));
  let told = false;
  const signal = (name: NodeJS.Signals): void => {
    told = true;
    signalGroup(pid, name);
  };
  const kill9 = async (): Promise<void> => {
    signal("SIGKILL");
    await ended;
    groups.delete(pid);
  };
  return {
    pid,
    ended,
    wasTold: () => told,
    output: () => Buffer.concat(printed.map(({ bytes }) => bytes)).toString(),
    signal,
    kill9,
    async stop() {
      signal("SIGTERM");
      const late = setTimeout(() => signal("SIGKILL"), STOP_GRACE_MS);
      await ended;
      clearTimeout(late);
      // The leader is gone; what it may have left in its group goes too.
      await kill9();
    },
  };
}

/** Runs a program to its end. */
export async function run(command: readonly string[], options: Start = {}): Promise<Ended> {
  const started = start(command, options);
  const ended = await started.ended;
  groups.delete(started.pid);
  return ended;
}

/** Runs a program that must end with 0; answers its stdout. */
export async function mustRun(command: readonly string[], options: Start = {}): Promise<string> {
  const { code, signal, stdout, stderr } = await run(command, options);
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code ?? signal}\n${stdout}\n${stderr}`);
  return stdout.toString();
}

function endOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    // ESRCH: everybody in the group is gone.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
