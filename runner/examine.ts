import type { RunnerConfig } from "./agent/config.ts";
import { findEngine } from "./executors/container/engine/engine.ts";
import { detectProcessExecutor } from "./executors/detect.ts";
import { NoExecutorError } from "./executors/executor.ts";
import { ConfigError, messageOf } from "./lib/fault.ts";
import { openConfinement } from "./limits/confinement.ts";
import { agentName } from "./pfs/folders.ts";

/** A way to run commands that was really tried: what works, or why it does not. */
export interface TriedWay {
  readonly name: "docker" | "podman" | "process";
  readonly works: boolean;
  readonly found: string;
}

/** Tries each way that `choice` allows, the engines in the order in which `auto` takes them. `folder` is for the tries: absolute, and without links on the way. */
export async function tryWays({
  executor: choice,
  node,
  folder,
}: Pick<RunnerConfig, "executor" | "node"> & { readonly folder: string }): Promise<TriedWay[]> {
  const ways: TriedWay[] = [];
  for (const name of ["docker", "podman", "process"] as const) {
    if (choice !== "auto" && choice !== name) continue;
    ways.push(name === "process" ? await tryProcesses(folder, node) : await tryEngine(name));
  }
  return ways;
}

async function tryEngine(name: "docker" | "podman"): Promise<TriedWay> {
  const found = await findEngine(name, process.env);
  if (!Array.isArray(found)) return { name, works: true, found: `${found.version} at ${found.socket}` };
  return { name, works: false, found: found.map((problem) => problem.replace(`${name}: `, "")).join("; ") };
}

async function tryProcesses(folder: string, node: string): Promise<TriedWay> {
  const name = "process";
  try {
    // Whether limits can be kept is asked by itself.
    const terms = { limits: {}, node, agent: await ownName() };
    const { executor, tool } = await detectProcessExecutor({ dataDir: folder, scratch: folder, terms });
    await executor.close();
    return { name, works: true, found: `with ${tool}; commands have this machine's tools` };
  } catch (error) {
    return {
      name,
      works: false,
      found: error instanceof NoExecutorError ? triesOf(error) : messageOf(error),
    };
  }
}

/** What was tried, without the advice that comes behind it. */
function triesOf({ message }: NoExecutorError): string {
  return message
    .split("\n")
    .filter((line) => /^(bubblewrap|unshare): /.test(line))
    .join("; ");
}

/** Why processes can't be kept to the limits on this machine; undefined if they can. */
export async function limitFault({
  limits,
  node,
}: Pick<RunnerConfig, "limits" | "node">): Promise<string | undefined> {
  try {
    const confinement = await openConfinement({ limits, node, agent: await ownName() });
    await confinement?.close();
    return undefined;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message;
  }
}

/** A name for what is tried, which no agent has. */
async function ownName(): Promise<string> {
  return `${await agentName()}-doctor`;
}
