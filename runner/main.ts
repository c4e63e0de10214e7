import { setMaxListeners } from "node:events";
import { mkdir, realpath } from "node:fs/promises";
import { dirname } from "node:path";
import { runAgent } from "./agent/agent.ts";
import type { RunnerConfig } from "./agent/config.ts";
import { Crew } from "./agent/crew.ts";
import { Cache } from "./cache/cache.ts";
import type { Detected } from "./executors/detect.ts";
import { clearLeftovers, findEngines, openExecutor } from "./executors/open-executor.ts";
import { pathsToHide } from "./executors/process/hidden.ts";
import { Client } from "./gateway/client.ts";
import { Gateway } from "./gateway/gateway.ts";
import type { Log } from "./lib/log.ts";
import { type AgentFolders, bootId, closeAgentFolders, openAgentFolders } from "./pfs/folders.ts";
import { PipeStock } from "./pfs/lazy/pipe-stock.ts";
import { checkSecretsFolder, openSecrets, secretsFolder } from "./secrets/open.ts";
import { STRICT_TERMS } from "./tasks/egress-terms.ts";
import { Places } from "./worker/places.ts";
import { runWorker, type WorkerOptions } from "./worker/worker.ts";

/** A running agent. */
export interface Runner {
  readonly node: string;
  /** How it runs commands, for people, such as "docker 28.2 at /var/run/docker.sock". */
  readonly runs: { readonly executor: string; readonly tool: string };
  /** Resolves when it has ended: its workers have stopped and its folders are gone. Fails if clearing up does. */
  readonly done: Promise<void>;
  /** Take no new datum, finish those that run, give back the others, say good-bye. */
  drain(): void;
  /** Like `drain`, and stop the commands that run: their datums are given back. */
  kill(): void;
}

export interface StartOptions {
  readonly log: Log;
  /** The gateway is asked for nothing before this; absent: it is there. The runner does not start if it fails. */
  readonly gatewayReady?: Promise<void>;
}

/** Starts an agent on this machine. Throws NoExecutorError if commands can't be run here, and ConfigError if limits can't be kept or the folder of secrets can't be one. */
export async function startRunner(
  config: RunnerConfig,
  { log, gatewayReady }: StartOptions,
): Promise<Runner> {
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
  const dataDir = await realpath(config.dataDir);
  await checkSecretsFolder(secretsFolder(config.secrets), dataDir);
  const engines = await findEngines(config.executor, process.env);
  await clearLeftovers(engines, { dataDir, log });
  const folders = await openAgentFolders(dataDir);
  for (const left of folders.left) log.warn(left, "a dead agent's folder could not be removed");
  const { executor: choice, withoutEngine, network, node, limits } = config;
  const hidden = pathsToHide({ ...config, dataDir }, process.env);
  const terms = { choice, withoutEngine, network, dataDir, hidden, agentDir: folders.agent, node, limits };
  const detected = await openExecutor(engines, terms).catch(async (error: unknown) => {
    await closeAgentFolders(folders);
    throw error;
  });
  await gatewayReady?.catch(async (error: unknown) => {
    await detected.executor.close();
    await closeAgentFolders(folders);
    throw error;
  });
  log.info({ node, executor: detected.executor.name, tool: detected.tool, data: dataDir }, "runner started");
  const drain = new AbortController();
  const kill = new AbortController();
  // Every worker and every call listens to these two.
  setMaxListeners(0, drain.signal, kill.signal);
  return {
    node,
    runs: { executor: detected.executor.name, tool: detected.tool },
    done: runUntilDone(config, { log, folders, detected, drain: drain.signal, kill: kill.signal }),
    drain: () => drain.abort(),
    kill: () => {
      kill.abort();
      drain.abort();
    },
  };
}

interface RunOptions {
  readonly log: Log;
  readonly folders: AgentFolders;
  readonly detected: Detected;
  readonly drain: AbortSignal;
  readonly kill: AbortSignal;
}

async function runUntilDone(
  config: RunnerConfig,
  { log, folders, detected, drain, kill }: RunOptions,
): Promise<void> {
  const client = new Client(config);
  const gateway = new Gateway(client);
  const { node, cacheBytes, maxRunning, maxWorkers } = config;
  const cache = new Cache({
    ...{ dir: folders.cache, incoming: folders.incoming, agents: dirname(folders.agent) },
    ...{ maxBytes: cacheBytes, boot: await bootId(), gateway, log, kill },
  });
  const { executor } = detected;
  const pipes = new PipeStock(folders.pipes);
  const { secretAccessKey, keySecret: secretName } = config;
  const secrets = openSecrets(config.secrets, { own: { secretAccessKey, secretName }, kill });
  const egress = { terms: config.egress ?? STRICT_TERMS, gatewayKey: config.accessKeyId };
  const places = new Places(maxRunning);
  const run = (worker: WorkerOptions) =>
    runWorker({ gateway, cache, executor, secrets, egress, pipes, places, log, node }, worker);
  const crew = new Crew({ run, log, node, dir: folders.agent, maxWorkers, drain, kill });
  const bounds = { running: maxRunning, workers: maxWorkers };
  const upkeep = cache.upkeep(drain);
  try {
    await runAgent({ gateway, crew, log, node, executorName: executor.name, bounds }, drain);
    await upkeep;
  } finally {
    await executor.close();
    await client.close();
    await closeAgentFolders(folders);
    log.info({ node }, "runner ended");
  }
}
