import { setMaxListeners } from "node:events";
import type { NodeAbout } from "../protocol/runner.ts";
import { runAgent } from "./agent/agent.ts";
import type { RunnerConfig } from "./agent/config.ts";
import { type OpenedNode, openNode } from "./agent/node.ts";
import { WorkerPool } from "./agent/worker-pool.ts";
import { Client } from "./gateway/client.ts";
import { Gateway } from "./gateway/gateway.ts";
import type { Log, ParentLog } from "./lib/log.ts";
import { runnerFolders } from "./lib/own-folders.ts";
import { spaceOf } from "./lib/sizes.ts";
import { PipeStock } from "./pfs/lazy/pipe-stock.ts";
import { openSecrets, secretsFolder } from "./secrets/open.ts";
import { STRICT_TERMS } from "./tasks/destination.ts";
import { IdlePipelines } from "./worker/idle-pipelines.ts";
import { RunPermits } from "./worker/run-permits.ts";
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
  readonly log: ParentLog;
  /** The gateway is asked for nothing before this; absent: it is there. The runner does not start if it fails. */
  readonly gatewayReady?: Promise<void>;
  /** The release that this is, for people. */
  readonly version?: string;
}

/** Starts an agent on this machine. Throws NoExecutorError if commands can't be run here, and ConfigError if limits can't be kept or the folder of secrets can't be one. */
export async function startRunner(
  config: RunnerConfig,
  { log, gatewayReady, version }: StartOptions,
): Promise<Runner> {
  const opened = await openNode(config, { log });
  const { executor, tool, dataDir } = opened;
  await gatewayReady?.catch(async (error: unknown) => {
    await opened.close();
    throw error;
  });
  const { node } = config;
  log.info({ node, executor: executor.name, tool, data: dataDir }, "runner started");
  const drain = new AbortController();
  const kill = new AbortController();
  // Every worker and every call listens to these two.
  setMaxListeners(0, drain.signal, kill.signal);
  return {
    node,
    runs: { executor: executor.name, tool },
    done: runUntilDone(config, { log, opened, version, drain: drain.signal, kill: kill.signal }),
    drain: () => drain.abort(),
    kill: () => {
      kill.abort();
      drain.abort();
    },
  };
}

/** The first SIGTERM or SIGINT (Ctrl-C) drains the runner, the second one kills it. Ends with the runner. */
export function stopOnSignals(runner: Pick<Runner, "done" | "drain" | "kill">, { log }: { log: Log }): void {
  let signals = 0;
  const onSignal = (name: NodeJS.Signals) => {
    signals += 1;
    if (signals === 1) {
      log.info({ signal: name }, "draining: running datums are finished; once more to stop them");
      runner.drain();
    } else runner.kill();
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  const forget = () => process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
  runner.done.then(forget, forget);
}

interface RunOptions {
  readonly log: ParentLog;
  readonly opened: OpenedNode;
  readonly version: string | undefined;
  readonly drain: AbortSignal;
  readonly kill: AbortSignal;
}

async function runUntilDone(
  config: RunnerConfig,
  { log, opened, version, drain, kill }: RunOptions,
): Promise<void> {
  const client = new Client(config);
  const gateway = new Gateway(client, { hide: hiding({ config, opened, log }) });
  const { node, cacheBytes, maxRunning, maxWorkers } = config;
  const cache = await opened.openCache({ maxBytes: cacheBytes, erased: "told", gateway, log, kill });
  const { executor, folders } = opened;
  const pipes = new PipeStock(folders.pipes);
  const { secretAccessKey, keySecret: secretName } = config;
  const secrets = openSecrets(config.secrets, { own: { secretAccessKey, secretName }, kill });
  const egress = { terms: config.egress ?? STRICT_TERMS, gatewayKey: config.accessKeyId };
  const permits = new RunPermits(maxRunning);
  const idle = new IdlePipelines();
  const run = (worker: WorkerOptions) =>
    runWorker({ gateway, cache, executor, secrets, egress, pipes, permits, idle, log, node }, worker);
  const pool = new WorkerPool({ run, log, node, dir: folders.agent, maxWorkers, drain, kill });
  const bounds = { running: maxRunning, workers: maxWorkers };
  const upkeep = cache.upkeep(drain);
  try {
    const executorName = () => executor.name;
    const describe = async (): Promise<NodeAbout> => ({
      ...(version !== undefined && { version }),
      disk: await spaceOf(opened.dataDir).catch(() => undefined),
      cache: cache.use,
    });
    await runAgent({ gateway, pool, idle, cache, log, node, executorName, bounds, describe }, drain);
    await upkeep;
  } finally {
    await opened.close(() => client.close());
    log.info({ node }, "runner ended");
  }
}

/** Words for others, without this runner's folders. Its own log has them as they were. */
function hiding({
  config,
  opened,
  log,
}: Pick<RunOptions, "log" | "opened"> & { readonly config: RunnerConfig }): (words: string) => string {
  const dataDirs = [config.dataDir, opened.dataDir];
  const folders = runnerFolders({ dataDirs, secrets: secretsFolder(config.secrets) }, process.env);
  let last: string | undefined;
  return (words) => {
    const shown = folders.hide(words);
    if (shown !== words && words !== last) {
      last = words;
      log.warn(
        { node: config.node, reason: words },
        "a reason was reported without the names of this runner's folders",
      );
    }
    return shown;
  };
}
