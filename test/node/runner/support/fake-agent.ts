import { join } from "node:path";
import { runAgent } from "../../../../runner/agent/agent.ts";
import { WorkerPool } from "../../../../runner/agent/worker-pool.ts";
import type { Executor } from "../../../../runner/executors/executor.ts";
import { Client } from "../../../../runner/gateway/client.ts";
import { Gateway } from "../../../../runner/gateway/gateway.ts";
import { PipeStock } from "../../../../runner/pfs/lazy/pipe-stock.ts";
import type { SecretSource } from "../../../../runner/secrets/source.ts";
import { STRICT_TERMS } from "../../../../runner/tasks/destination.ts";
import { IdlePipelines } from "../../../../runner/worker/idle-pipelines.ts";
import { RunPermits } from "../../../../runner/worker/run-permits.ts";
import { runWorker, type WorkerOptions } from "../../../../runner/worker/worker.ts";
import { openCache } from "./caches.ts";
import { KEY } from "./fake-gateway.ts";
import { log } from "./running.ts";

export interface FakeAgentOptions {
  readonly endpoint: string;
  readonly dataDir: string;
  readonly executor: Executor;
  readonly secrets?: SecretSource;
  readonly node?: string;
  readonly maxRunning?: number;
  readonly maxWorkers?: number;
  readonly idle?: IdlePipelines;
}

/** An agent as it is, but for its executor. */
export interface FakeAgent {
  drain(): void;
  /** Ends it; what runs is stopped. */
  kill(): Promise<void>;
  readonly done: Promise<void>;
}

const NONE: SecretSource = {
  read: async (name) => {
    throw new Error(`nobody should read the secret ${name}`);
  },
};

export function startFakeAgent({
  endpoint,
  dataDir,
  executor,
  secrets = NONE,
  node = "n1",
  maxRunning = 16,
  maxWorkers = 256,
  idle = new IdlePipelines(),
}: FakeAgentOptions): FakeAgent {
  const client = new Client({ endpoint, ...KEY });
  const gateway = new Gateway(client);
  const [drain, kill] = [new AbortController(), new AbortController()];
  const dir = join(dataDir, "agents", node);
  const cache = openCache(dataDir, { gateway, agent: node, kill: kill.signal });
  const pipes = new PipeStock(join(dir, "pipes"));
  const egress = { terms: STRICT_TERMS, gatewayKey: KEY.accessKeyId };
  const permits = new RunPermits(maxRunning);
  const run = (worker: WorkerOptions) =>
    runWorker(
      { gateway, cache, executor, secrets: { for: () => secrets }, egress, pipes, permits, idle, log, node },
      worker,
    );
  const pool = new WorkerPool({ run, log, node, dir, maxWorkers, drain: drain.signal, kill: kill.signal });
  const bounds = { running: maxRunning, workers: maxWorkers };
  const describe = async () => ({});
  const upkeep = cache.upkeep(drain.signal);
  const executorName = () => executor.name;
  const done = runAgent(
    { gateway, pool, idle, cache, log, node, executorName, bounds, describe },
    drain.signal,
  )
    .then(() => upkeep)
    .finally(() => client.close());
  return {
    done,
    drain: () => drain.abort(),
    async kill() {
      kill.abort();
      drain.abort();
      await done;
    },
  };
}
