import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startGateway } from "../../embedded/host.ts";
import { claimPort } from "../../embedded/port.ts";
import type { GatewaySettings } from "../../embedded/settings.ts";
import {
  type Binding,
  type HostLog,
  readRuntimeConfig,
  startRuntime,
} from "../../embedded/workerd/runtime.ts";
import { workerdEnvironment, workerdPid } from "../../embedded/workerd/workerd.ts";
import { type Door, ROOT_KEY } from "../../test/support/keys.ts";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";

export const HOST = "127.0.0.1";
/** The root of the repository. */
export const ROOT = join(import.meta.dirname, "../..");

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

/** Tells what goes wrong, and nothing else. */
export const log: HostLog = {
  debug() {},
  info() {},
  warn: (message) => console.error(message),
  error: (message) => console.error(message),
};

/** `dataDir`: a scratch folder, empty or left by an earlier gateway; it is removed in the end. */
export async function startBenchGateway(
  dataDir: string = scratchFolder(),
  settings: GatewaySettings = {},
): Promise<BenchGateway> {
  const gateway = await startGateway({ host: HOST, port: 0, dataDir, rootKey: ROOT_KEY, settings, log });
  return {
    endpoint: gateway.endpoint,
    door: { endpoint: gateway.endpoint, ...ROOT_KEY },
    ...inFolder(dataDir, { store: "disk", end: () => gateway.stop() }),
  };
}

/** What a server keeps its bodies in. */
export type Store = "disk" | "r2";

const R2_BUCKET = "blobs";

/** A Worker of `bench/workers` on the same kind of host as the gateway, with the same disk service as `DISK`, or a bucket of R2's simulator as `BLOBS`. */
export async function startBareWorker(
  name: keyof typeof BARE_WORKERS,
  { store = "disk", farMs = 0 }: { store?: Store; farMs?: number } = {},
): Promise<Server> {
  const dataDir = scratchFolder();
  const port = await claimPort(HOST, 0);
  const stateDir = join(dataDir, "state");
  mkdirSync(stateDir);
  const runtime = await startRuntime({
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    code: readFileSync(BARE_WORKERS[name], "utf8"),
    stateDir,
    workerdEnv: workerdEnvironment(dataDir),
    bindings: { ...blobBinding(store, dataDir), ...farBinding(farMs) },
    objectClasses: [],
    listen: { host: HOST, port },
    log,
  });
  return {
    endpoint: `http://${HOST}:${port}`,
    ...inFolder(dataDir, { store, end: () => runtime.dispose() }),
  };
}

/** Binds a store in a data folder; makes what it needs there. */
export function blobBinding(store: Store, dataDir: string): Record<string, Binding> {
  if (store === "r2") return { BLOBS: { type: "r2", name: R2_BUCKET } };
  const path = join(dataDir, "blobs");
  mkdirSync(path);
  return { DISK: { type: "disk", path, writable: true } };
}

/** Says to a Worker of `bench/workers` by how many milliseconds its bucket answers reads late. */
export function farBinding(farMs: number): Record<string, Binding> {
  return { FAR_MS: { type: "text", value: String(farMs) } };
}

/** What servers over a data folder have in common. */
export function inFolder(
  dataDir: string,
  { store, end }: { store: Store; end: () => Promise<void> },
): Omit<Server, "endpoint"> {
  const pid = workerdPid(dataDir);
  if (pid === undefined) throw new Error(`no workerd runs over ${dataDir}`);
  const blobsDir = join(dataDir, store === "disk" ? "blobs" : `state/r2/${R2_BUCKET}/blobs`);
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
