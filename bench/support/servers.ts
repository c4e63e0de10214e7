import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startGateway } from "../../embedded/host.ts";
import type { HostLog } from "../../embedded/host-log.ts";
import { claimPort } from "../../embedded/port.ts";
import { startRuntime } from "../../embedded/runtime.ts";
import { workerdEnvironment, workerdPid } from "../../embedded/workerd.ts";
import { readRuntimeConfig } from "../../embedded/wrangler-config.ts";
import { type Door, ROOT_KEY } from "../../test/support/keys.ts";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";

const HOST = "127.0.0.1";
const ROOT = join(import.meta.dirname, "../..");

const BARE_WORKERS = {
  empty: new URL("../workers/empty.js", import.meta.url),
  streaming: new URL("../workers/streaming.js", import.meta.url),
} as const;

/** A server on workerd with a folder of its own. */
export interface Server {
  readonly endpoint: string;
  /** Of workerd. */
  readonly pid: number;
  /** Removes every blob: a run must not fill the disk. What is named stays named, so its readers will fail. */
  dropBlobs(): void;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/** The gateway under measurement. */
export interface BenchGateway extends Server {
  readonly door: Door;
}

const log: HostLog = {
  debug() {},
  info() {},
  warn: (message) => console.error(message),
  error: (message) => console.error(message),
};

export async function startBenchGateway(): Promise<BenchGateway> {
  const dataDir = scratchFolder();
  const gateway = await startGateway({ host: HOST, port: 0, dataDir, rootKey: ROOT_KEY, log });
  return {
    endpoint: gateway.endpoint,
    door: { endpoint: gateway.endpoint, ...ROOT_KEY },
    ...inFolder(dataDir, () => gateway.stop()),
  };
}

/** A Worker of `bench/workers` on the same kind of host as the gateway, with the same disk service as `DISK`. */
export async function startBareWorker(name: keyof typeof BARE_WORKERS): Promise<Server> {
  const dataDir = scratchFolder();
  const port = await claimPort(HOST, 0);
  const [blobsDir, stateDir] = [join(dataDir, "blobs"), join(dataDir, "state")];
  for (const folder of [blobsDir, stateDir]) mkdirSync(folder);
  const runtime = await startRuntime({
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    code: readFileSync(BARE_WORKERS[name], "utf8"),
    stateDir,
    workerdEnv: workerdEnvironment(dataDir),
    bindings: { DISK: { type: "disk", path: blobsDir, writable: true } },
    objectClasses: [],
    listen: { host: HOST, port },
    log,
  });
  return { endpoint: `http://${HOST}:${port}`, ...inFolder(dataDir, () => runtime.dispose()) };
}

function inFolder(dataDir: string, end: () => Promise<void>): Omit<Server, "endpoint"> {
  const pid = workerdPid(dataDir);
  if (pid === undefined) throw new Error(`no workerd runs over ${dataDir}`);
  const blobsDir = join(dataDir, "blobs");
  return {
    pid,
    dropBlobs() {
      for (const entry of readdirSync(blobsDir)) rmSync(join(blobsDir, entry), { recursive: true });
    },
    async stop() {
      await end();
      removeScratch(dataDir);
    },
  };
}
