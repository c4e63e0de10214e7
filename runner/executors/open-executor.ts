import { basename } from "node:path";
import { ConfigError, messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { containerExecutor } from "./container/container-executor.ts";
import { dataFolderId, removeLeftovers } from "./container/engine/disposal.ts";
import { type Engine, type EngineKind, findEngine } from "./container/engine/engine.ts";
import { removeDeadSecrets } from "./container/secrets.ts";
import { type Detected, detectProcessExecutor } from "./detect.ts";
import {
  type Executor,
  type ExecutorChoice,
  type ExecutorSettings,
  NO_ENGINE,
  NodeCondition,
  NoEngineError,
  NoExecutorError,
  noDevices,
  noNetwork,
} from "./executor.ts";
import { guardDisk } from "./guard-disk.ts";

/** The engine of each kind, or what was tried to find it. */
export type Engines = ReadonlyMap<EngineKind, Engine | readonly string[]>;

const KINDS: readonly EngineKind[] = ["docker", "podman"];

/** Looks for container engines on this machine, if the choice allows any. */
export async function findEngines(choice: ExecutorChoice, env: NodeJS.ProcessEnv): Promise<Engines> {
  const kinds = choice === "process" ? [] : KINDS;
  return new Map(await Promise.all(kinds.map(async (kind) => [kind, await findEngine(kind, env)] as const)));
}

/**
 * Removes what dead agents of this data folder left in engines and in memory, whichever executor they had. Must come
 * before their folders are removed: commands may still be writing to them.
 */
export async function clearLeftovers(
  engines: Engines,
  { dataDir, log }: { dataDir: string; log: Log },
): Promise<void> {
  const data = await dataFolderId(dataDir);
  await removeDeadSecrets({ data });
  for (const engine of engines.values()) {
    if (!isThere(engine)) continue;
    await removeLeftovers(engine, { data }).catch((error: unknown) =>
      log.warn(
        { engine: engine.kind, reason: messageOf(error) },
        "containers of dead agents could not be removed",
      ),
    );
  }
}

/** `dataDir`: without links on the way. `hidden`: all that such commands do not see, as in Jail. */
export interface ExecutorTerms extends ExecutorSettings {
  /** The agent's folder, inside `dataDir`. */
  readonly agentDir: string;
  readonly log: Log;
}

/**
 * The executor that was asked for; "auto" is docker, else podman. Without an engine it is what `withoutEngine` says. The choice is made
 * once: an engine that goes away later is waited for. Throws NoExecutorError, which says what was tried, and
 * ConfigError if the limits or the network can't be kept here.
 */
export async function openExecutor(engines: Engines, terms: ExecutorTerms): Promise<Detected> {
  const { dataDir, node, limits } = terms;
  const { executor, tool } = await open(engines, terms);
  return { executor: guardDisk(executor, { outBytes: limits.outBytes, node, dataDir }), tool };
}

async function open(engines: Engines, terms: ExecutorTerms): Promise<Detected> {
  const { executor: choice, withoutEngine, network } = terms;
  const found = engineOf(engines, choice);
  if (isThere(found)) return overEngine(found, terms);
  const problems = [...found];
  if (withoutEngine === "wait" && choice !== "process") return overNothing(problems, terms);
  if (choice !== "auto" && choice !== "process") {
    throw new NoExecutorError([...problems, ADVICE[choice]].join("\n"));
  }
  if (choice === "auto" && withoutEngine !== "process") {
    throw new NoEngineError([...problems, ...AUTO_ADVICE].join("\n"));
  }
  if (network !== undefined) throw new ConfigError(noNetwork(network));
  try {
    return await overProcesses(terms);
  } catch (error) {
    if (!(error instanceof NoExecutorError)) throw error;
    throw new NoExecutorError([...problems, error.message].join("\n"));
  }
}

/** The engine that a choice takes, or why there is none. */
function engineOf(engines: Engines, choice: ExecutorChoice): Engine | readonly string[] {
  const problems: string[] = [];
  for (const kind of choice === "auto" ? KINDS : KINDS.filter((one) => one === choice)) {
    const found = engines.get(kind);
    if (isThere(found)) return found;
    problems.push(...(found ?? []));
  }
  return problems;
}

async function overEngine(engine: Engine, terms: ExecutorTerms): Promise<Detected> {
  if (terms.devices !== undefined) throw new ConfigError(noDevices(terms.devices));
  const executor = await containerExecutor({ engine, ...terms });
  return { executor, tool: `${executor.name} ${engine.version} at ${engine.socket}` };
}

/** An engine that comes later may have been there before: what dead agents left in it goes, too. */
function overNothing(problems: readonly string[], terms: ExecutorTerms): Detected {
  const { executor: choice, dataDir, devices, log } = terms;
  if (devices !== undefined) throw new ConfigError(noDevices(devices));
  const look = async () => {
    const engines = await findEngines(choice, process.env);
    const found = engineOf(engines, choice);
    if (!isThere(found)) return found;
    await clearLeftovers(engines, { dataDir, log });
    return overEngine(found, terms);
  };
  const executor = waitingExecutor(look, { log });
  log.warn(noEngineYet(problems));
  return { executor, tool: problems.join("; ") };
}

function overProcesses({ agentDir, node, limits, ...machine }: ExecutorTerms): Promise<Detected> {
  const terms = { limits, node, agent: basename(agentDir) };
  return detectProcessExecutor({ ...machine, scratch: agentDir, terms });
}

function isThere(found: Engine | readonly string[] | undefined): found is Engine {
  return found !== undefined && "kind" in found;
}

const AUTO_ADVICE = [
  "Without --executor, commands run in containers alone, and no container engine answers here.",
  "To run them as processes with this machine's tools and the runner's rights: --executor process",
];

const ADVICE: Readonly<Record<EngineKind, string>> = {
  docker:
    "Docker must run on this machine, and its socket be open to the runner's user (group docker). DOCKER_HOST names another socket, as unix:///…",
  podman:
    "Podman's service must run on this machine: systemctl enable --now podman.socket (with --user for one's own). CONTAINER_HOST names another socket, as unix:///…",
};

/**
 * An executor for a node on which no container engine answers yet. Each worker that wants a sandbox looks for one; as long
 * as there is none, that is a node condition, which the worker reports, and it tries again. Once one is found, it stays.
 * `look`: the way to run commands if an engine answers by now, or what was tried.
 */
function waitingExecutor(
  look: () => Promise<Detected | readonly string[]>,
  { log }: { readonly log: Log },
): Executor {
  let found: Executor | undefined;
  let looking: Promise<Executor> | undefined;

  const find = async (): Promise<Executor> => {
    const seen = await look();
    if (!("executor" in seen)) throw new NodeCondition(noEngineYet(seen));
    found = seen.executor;
    log.info({ executor: found.name, tool: seen.tool }, "a container engine answers now");
    return found;
  };

  return {
    get name() {
      return found?.name ?? NO_ENGINE;
    },
    async prepare(request) {
      if (found) return found.prepare(request);
      // Several workers look at the same time, and two finds would be two executors of one data folder.
      looking ??= find().finally(() => {
        looking = undefined;
      });
      return (await looking).prepare(request);
    },
    close: async () => found?.close(),
  };
}

/** What a runner says that waits for an engine, and what to do about it. */
function noEngineYet(tried: readonly string[]): string {
  return `no container engine answers (${tried.join("; ")}): start one, or if the runner is in a container, mount the engine's socket into it: -v /var/run/docker.sock:/var/run/docker.sock`;
}
