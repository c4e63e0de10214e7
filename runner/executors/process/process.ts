import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { lackOf } from "../../lib/fault.ts";
import { isWithin } from "../../lib/system-calls.ts";
import {
  type Confined,
  type Confinement,
  type ConfinementTerms,
  openConfinement,
} from "../../limits/confinement.ts";
import { killStrays } from "../../pfs/folders.ts";
import {
  type Command,
  type Executor,
  KILLED,
  NodeCondition,
  noCommand,
  noFolder,
  type Run,
  type Sandbox,
} from "../executor.ts";
import { LogFifos } from "../log-fifos.ts";
import { Unmountable } from "../mounted-secrets.ts";
import { type Ended, executeOnTerminal } from "./execute.ts";
import { type Jail, type Place, permitted, type Started } from "./jail.ts";
import { Launcher, LauncherLost } from "./launcher.ts";
import { findDevices, findHidden, type HiddenPaths } from "./machine.ts";
import { planSecretMounts } from "./secret-mounts.ts";

/** Runs commands as processes, with the machine's own tools. Preparing throws ConfigError if limits can't be kept. */
export function processExecutor(jail: Jail, terms?: ConfinementTerms): Executor {
  // Of all the workers that have no limits.
  const launcher = new Launcher();
  let opened: Promise<Confinement | undefined> | undefined;
  const confinement = () => {
    opened ??= terms ? openConfinement(terms) : Promise.resolve(undefined);
    return opened;
  };
  return {
    name: "process",
    prepare: async ({ dir }) => {
      const limits = await confinement();
      const place = { dir, readOnly: limits?.readOnly ?? [] };
      await jail.prepare(place);
      const confined = await limits?.confine();
      const own = confined ? new Launcher(confined.launcher) : launcher;
      return new ProcessSandbox({ jail, place, confined, launcher: own });
    },
    close: async () => {
      await launcher.close();
      // A confinement that could not be opened has nothing to close.
      await (await opened?.catch(() => undefined))?.close();
    },
  };
}

interface SandboxParts {
  readonly jail: Jail;
  readonly place: Place;
  readonly launcher: Launcher;
  /** The launcher is then this sandbox's own. */
  readonly confined: Confined | undefined;
}

class ProcessSandbox implements Sandbox {
  readonly #parts: SandboxParts;
  readonly #log: LogFifos;
  #stdin: string | null = null;

  constructor(parts: SandboxParts) {
    this.#parts = parts;
    this.#log = new LogFifos(parts.place.dir);
  }

  async run(command: Command): Promise<Run> {
    const { confined } = this.#parts;
    if (!confined) return this.#run(command).catch(conditionOfShared);
    try {
      const run = await this.#run(command);
      if (run.kind === "not-started" || run.code === 0) return run;
      const cause = await confined.causeOfFailure();
      return cause === undefined ? run : { ...run, cause };
    } catch (error) {
      // When memory runs out, the kernel may kill the launcher, too.
      const cause = await confined.causeOfFailure();
      if (cause === undefined) throw error;
      return { kind: "exited", code: KILLED, log: "", cause };
    }
  }

  async #run(command: Command): Promise<Run> {
    const { pfs, cmd, workingDir = "/", stdin, secrets = [], onOutput, joined, signal } = command;
    const { jail, place, launcher } = this.#parts;
    const found = await findHidden(jail.hidden);
    const hidden = outOfDevices(found);
    const devices = await findDevices({
      wanted: jail.devices,
      hidden: [...found.folders, ...found.files],
    });
    const machine = { dataDir: jail.dataDir, hidden: hidden.folders };
    const mounts = await planSecretMounts(secrets, machine).catch(unmountable);
    if (mounts instanceof Unmountable) {
      return { kind: "not-started", reason: mounts.message, log: "", hopeless: true };
    }
    const env = permitted(command.env);
    const shown = { hidden, devices, secrets: mounts };
    const launch = await jail.launch({ ...place, pfs, cmd, workingDir, env, ...shown });
    const execute = command.terminal
      ? executeOnTerminal(launch, { ...this.#parts.confined?.launcher, signal }).then(
          // What a person saw is in no log.
          (done) => ({ done, log: "" }),
        )
      : this.#writeStdin(stdin).then(() => {
          const files = {
            output: this.#log.paths,
            stdin: stdin === null ? "/dev/null" : this.#stdinFile,
            ...{ joined, signal },
          };
          return this.#log.during({ work: () => launcher.execute(launch, files), onOutput });
        });
    const { done, log } = await execute.catch(async (error: unknown) => {
      await killStrays(pfs);
      throw error;
    });
    const ended = { ...done, log: log + (done.refused ?? "") };
    const started = jail.read(ended);
    // The first process of the command's pid namespace was told to end. The kernel ends it after all the others there, so that
    // from then on nothing writes to `/pfs/out`.
    while (started.init !== null && isAlive(started.init)) await delay(1);
    return runOf(started, { tool: jail.tool, name: cmd[0] ?? "", workingDir, ended });
  }

  async close(): Promise<void> {
    const { confined, launcher } = this.#parts;
    if (!confined) return;
    await launcher.close();
    await confined.close();
  }

  get #stdinFile(): string {
    return join(this.#parts.place.dir, "stdin");
  }

  /** Writes only what is new: most often stdin is what the datum before had. */
  async #writeStdin(stdin: string | null): Promise<void> {
    if (stdin === null || stdin === this.#stdin) return;
    // On a full disk the file may get half of it.
    this.#stdin = null;
    await writeFile(this.#stdinFile, stdin, { mode: 0o600 });
    this.#stdin = stdin;
  }
}

/** Of the machine's `/dev` nothing is seen but devices, of which those that are hidden are not found. */
function outOfDevices({ folders, files }: HiddenPaths): HiddenPaths {
  const isElsewhere = (path: string) => !isWithin(path, "/dev");
  return { folders: folders.filter(isElsewhere), files: files.filter(isElsewhere) };
}

function unmountable(error: unknown): Unmountable {
  if (error instanceof Unmountable) return error;
  throw error;
}

/** The launcher of all workers ran many commands: that it ended is no fault of each. */
function conditionOfShared(error: unknown): never {
  throw error instanceof LauncherLost ? new NodeCondition(error.message) : error;
}

// Synchronous, because most often it is gone and the kernel answers at once.
function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const state = stat[stat.lastIndexOf(")") + 2];
    return state !== "Z" && state !== "X";
  } catch (error) {
    // Without a file handle nobody can tell yet.
    return lackOf(error) === "handles";
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
  }: { tool: string; name: string; workingDir: string; ended: Ended & { log: string } },
): Run {
  switch (started.kind) {
    case "started":
      return { kind: "exited", code: code ?? 0, log };
    case "no-folder":
      return { kind: "not-started", reason: noFolder(workingDir), log };
    case "no-command":
      return { kind: "not-started", reason: `${noCommand(name)}. ${OWN_TOOLS}`, log };
    case "no-jail":
      return { kind: "not-started", reason: `${tool} could not start the command: ${lastLine(log)}`, log };
  }
}

/** What the tool said last, without indented lines, which only explain the line before. */
function lastLine(log: string): string {
  const lines = log.split("\n").filter((line) => /^\S/.test(line));
  return lines.at(-1) ?? "it ended without a word";
}
