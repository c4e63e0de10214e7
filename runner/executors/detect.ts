import { execFile } from "node:child_process";
import { mkdir, mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { findTool } from "../lib/system-calls.ts";
import type { ConfinementTerms } from "../limits/confinement.ts";
import { removeTree } from "../pfs/remove.ts";
import { type Executor, type ExecutorSettings, NoExecutorError } from "./executor.ts";
import { bubblewrap } from "./process/bubblewrap.ts";
import type { Jail, MachineTerms } from "./process/jail.ts";
import { type FolderEntries, kernelSettings, readRootEntries } from "./process/machine.ts";
import { processExecutor } from "./process/process.ts";
import { UNSHARE_TOOLS, type UnshareTools, unshare } from "./process/unshare.ts";

/** `dataDir`: without links on the way. */
export interface DetectOptions extends Pick<ExecutorSettings, "dataDir" | "hidden" | "devices"> {
  /** A folder for the tries, inside `dataDir`. */
  readonly scratch: string;
  readonly terms: ConfinementTerms;
}

export interface Detected {
  readonly executor: Executor;
  /** The tool that it uses. */
  readonly tool: string;
}

/**
 * The process executor with the best tool that works here: each is tried by really running `true`. Throws
 * NoExecutorError, and ConfigError if the limits can't be kept.
 */
export async function detectProcessExecutor(options: DetectOptions): Promise<Detected> {
  const { scratch, terms } = options;
  const root = await readRootEntries();
  const problems: string[] = [];
  for (const find of [findBubblewrap, findUnshare]) {
    const jail = await find({ root, ...options });
    if (typeof jail === "string") {
      problems.push(jail);
      continue;
    }
    const executor = processExecutor(jail, terms);
    const problem = await problemWith(executor, scratch);
    if (problem === undefined) return { executor, tool: jail.tool };
    await executor.close();
    problems.push(`${jail.tool}: ${problem}`);
  }
  throw new NoExecutorError([...problems, ADVICE].join("\n"));
}

const ADVICE = [
  "Commands need a private /pfs, which one of these tools makes. Install bubblewrap:",
  "  Debian, Ubuntu   apt-get install bubblewrap",
  "  Fedora           dnf install bubblewrap",
  "  Alpine           apk add bubblewrap",
  "Inside a container, or where AppArmor restricts it, user namespaces must be allowed as well (Ubuntu 24.04:",
  "sysctl kernel.apparmor_restrict_unprivileged_userns=0). On other systems than Linux, run the agent in a Linux VM.",
].join("\n");

interface FindOptions extends Pick<DetectOptions, "dataDir" | "hidden" | "devices"> {
  readonly root: FolderEntries;
}

async function machineTerms({
  root,
  dataDir,
  hidden = [],
  devices = [],
}: FindOptions): Promise<MachineTerms> {
  return { root, settings: await kernelSettings(), dataDir, hidden: [dataDir, ...hidden], devices };
}

/** The jail, or why there is none. */
export async function findBubblewrap(options: FindOptions): Promise<Jail | string> {
  const bwrap = await findTool("bwrap");
  if (!bwrap) return "bubblewrap: there is no bwrap here";
  return bubblewrap({
    ...(await machineTerms(options)),
    bwrap,
    permissions: (await helpOf(bwrap)).includes("--perms") ? "yes" : "no",
    superuser: userId() === 0 ? "yes" : "no",
  });
}

/** What a tool says of its options. One that says nothing will say what is wrong when it is tried. */
async function helpOf(tool: string): Promise<string> {
  const said = await promisify(execFile)(tool, ["--help"]).catch(() => ({ stdout: "" }));
  return said.stdout;
}

/** The jail, or why there is none. */
export async function findUnshare(options: FindOptions): Promise<Jail | string> {
  const tools: Record<string, string> = {};
  for (const name of UNSHARE_TOOLS) {
    const path = await findTool(name);
    if (!path) return `unshare: there is no ${name} here (package util-linux, in Alpine also setpriv)`;
    tools[name] = path;
  }
  return unshare({
    ...(await machineTerms(options)),
    tools: tools as UnshareTools,
    uid: userId(),
    gid: process.getgid?.() ?? 0,
  });
}

function userId(): number {
  return process.getuid?.() ?? 0;
}

/** Runs `true` in it. Returns what went wrong, or undefined. */
async function problemWith(executor: Executor, scratch: string): Promise<string | undefined> {
  const dir = await mkdtemp(join(scratch, "try-"));
  try {
    const pfs = join(dir, "pfs");
    await mkdir(join(pfs, "out"), { recursive: true });
    const { signal } = new AbortController();
    const sandbox = await executor.prepare({ dir, image: "", pipeline: "", pullSecrets: [], signal });
    const env = { PATH: process.env.PATH ?? "/usr/bin:/bin" };
    const run = await sandbox.run({ pfs, cmd: ["true"], stdin: null, env, signal });
    await sandbox.close();
    if (run.kind === "not-started") return run.reason;
    return run.code === 0 ? undefined : `"true" ended with ${run.code}: ${run.log}`;
  } finally {
    await removeTree(dir);
  }
}
