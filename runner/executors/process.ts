import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import type { Ended } from "./execute.ts";
import type { Command, Executor, PrepareRequest, Run, Sandbox } from "./executor.ts";
import type { Jail, Started } from "./jail.ts";
import { Launcher } from "./launcher.ts";
import { planSecretMounts } from "./secret-mounts.ts";
import { killStrays } from "./strays.ts";

/** Runs commands as processes of this machine, with its own tools: the image is ignored. */
export function processExecutor(jail: Jail): Executor {
  const launcher = new Launcher();
  return {
    name: "process",
    prepare: (request) => prepare({ jail, launcher }, request),
    close: () => launcher.close(),
  };
}

interface Machinery {
  readonly jail: Jail;
  readonly launcher: Launcher;
}

async function prepare({ jail, launcher }: Machinery, { dir }: PrepareRequest): Promise<Sandbox> {
  await promisify(execFile)("mkfifo", ["-m", "600", join(dir, "log")]);
  await jail.prepare(dir);
  return new ProcessSandbox({ jail, launcher }, dir);
}

class ProcessSandbox implements Sandbox {
  readonly #jail: Jail;
  readonly #launcher: Launcher;
  readonly #dir: string;
  #stdin: string | null = null;

  constructor({ jail, launcher }: Machinery, dir: string) {
    this.#jail = jail;
    this.#launcher = launcher;
    this.#dir = dir;
  }

  async run({ pfs, cmd, workingDir = "/", env, stdin, secrets = [], signal }: Command): Promise<Run> {
    const planned = await planSecretMounts(secrets, this.#jail);
    if (!planned.ok) return { kind: "not-started", reason: planned.reason, log: "", hopeless: true };
    await this.#writeStdin(stdin);
    const request = { dir: this.#dir, pfs, cmd, workingDir, env, secrets: planned.mounts };
    const launch = this.#jail.launch(request);
    const files = { log: join(this.#dir, "log"), stdin: stdin === null ? "/dev/null" : this.#stdinFile };
    const ended = await this.#launcher.execute(launch, { ...files, signal }).catch(async (error: unknown) => {
      await killStrays(pfs);
      throw error;
    });
    const started = this.#jail.read(ended);
    if (started.init !== null) await processEnd(started.init);
    return runOf(started, { tool: this.#jail.tool, name: cmd[0] ?? "", workingDir, ended });
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
  {
    tool,
    name,
    workingDir,
    ended: { code, log },
  }: { tool: string; name: string; workingDir: string; ended: Ended },
): Run {
  switch (started.kind) {
    case "started":
      return { kind: "exited", code: code ?? 0, log };
    case "no-folder":
      return {
        kind: "not-started",
        reason: `the working directory "${workingDir}" is not there or can't be entered`,
        log,
      };
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

/** What the tool said last; lines that are set in only explain the one before. */
function lastLine(log: string): string {
  const lines = log.split("\n").filter((line) => /^\S/.test(line));
  return lines.at(-1) ?? "it ended without a word";
}
