import { timingSafeEqual } from "node:crypto";
import { statfs } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Miniflare } from "miniflare";
import type { HostDisks, KeptLines } from "../protocol/admin.ts";
import { consoleFolder, workerCode } from "./bundle/built.ts";
import { lockDataFolder } from "./data/data-lock.ts";
import { keepFolder } from "./data/flush.ts";
import { FlushedBlobs } from "./data/flushed-blobs.ts";
import { makeOwnFolder, presentMoment, removePartials } from "./data/folders.ts";
import { readHolder } from "./data/holder.ts";
import { readKeptLog } from "./data/kept-log.ts";
import { type AccessKey, keptEncryptionKey, keptRootKey, madeKey } from "./data/keys.ts";
import { applyMigrations, D1_OBJECTS, isMigrated, refuseOtherFamily } from "./data/migrations.ts";
import { openAway, openFront } from "./front.ts";
import { fewHandlesWarning, HandleReserve, HandleWatch } from "./handles.ts";
import { waitUntilHealthy } from "./health.ts";
import { claimPort } from "./port.ts";
import { type Scrubbed, type ScrubExtent, scrubApart } from "./scrub/scrub.ts";
import { Scrubs } from "./scrub/scrubs.ts";
import type { GatewaySettings } from "./settings.ts";
import {
  type Binding,
  type HostAnswer,
  type HostLog,
  type HostRequest,
  type RuntimeOptions,
  readRuntimeConfig,
  startRuntime,
  WORKER_NAME,
} from "./workerd/runtime.ts";
import { endOrphan, workerdEnvironment, workerdPid } from "./workerd/workerd.ts";

const ROOT = join(import.meta.dirname, "..");
const DATABASE = { type: "d1", id: "sluice" } as const;
const MIGRATIONS = join(ROOT, "migrations");
const OBJECT_CLASSES = ["Branch", "Pipeline", "Fleet"] as const;
/** Below the state of the runtime: the files of D1, and those of the objects. */
const DATABASE_FOLDERS = [join("d1", D1_OBJECTS), ...OBJECT_CLASSES.map(objectsFolder)];
const MIGRATOR = "export default { fetch: () => new Response(null, { status: 404 }) };";

export interface GatewayOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Everything that lasts is in this folder; it is made if it is absent. One gateway at a time. */
  readonly dataDir: string;
  /** Absent: the key that the data folder keeps, made at the first start. */
  readonly rootKey?: AccessKey;
  /** Variables of the gateway. If no encryption key is among them, the data folder keeps one, made at the first start. */
  readonly settings?: GatewaySettings;
  /** Bodies of more bytes are refused in front of the gateway, as Cloudflare does. Absent: none is. */
  readonly maxBodyBytes?: number;
  readonly log: HostLog;
}

export interface Gateway {
  /** `http://<host>:<port>`, as this machine reaches it. */
  readonly endpoint: string;
  readonly rootKey: AccessKey;
  /** The key for runners that are started beside it, of level `runner`. It is kept nowhere, and ends with the gateway. */
  readonly runnerKey: AccessKey;
  /** Resolves when `GET /healthz` is 200. */
  readonly ready: Promise<void>;
  /** Rejects if it ends by itself: after a scrub it could not be started again. */
  readonly failed: Promise<never>;
  /** Ends it. Acknowledged writes stay; requests under way are cut. */
  stop(): Promise<void>;
}

/**
 * Starts the gateway on this machine: the Worker on workerd, its data in a folder. It is ready when this returns. Throws
 * a HostError if the folder or the port can't be had.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const gateway = await openGateway(options);
  try {
    await gateway.ready;
  } catch (error) {
    await gateway.stop();
    throw error;
  }
  return gateway;
}

/**
 * As `startGateway`, but returns as soon as folder and port are taken, so that the caller can do something else until the
 * gateway is ready. The caller stops it, also if it does not get ready.
 */
export async function openGateway(options: GatewayOptions): Promise<Gateway> {
  const dataDir = resolve(options.dataDir);
  keepFolder(dataDir, 0o700);
  // Whoever stops takes it along.
  const wasKilled = readHolder(dataDir) !== undefined;
  const lock = lockDataFolder(dataDir);
  try {
    await endOrphan(dataDir);
    refuseOtherFamily(join(dataDir, "state"), DATABASE_FOLDERS);
    const start = presentMoment();
    const few = fewHandlesWarning();
    if (few !== undefined) options.log.warn(few);
    const port = await claimPort(options.host, options.port);
    const endpoint = `http://${reachableHost(options.host)}:${port}`;
    const rootKey = options.rootKey ?? keptRootKey(dataDir);
    const runnerKey = madeKey();
    const stopped = new AbortController();
    const { signal } = stopped;
    const failed = Promise.withResolvers<never>();
    failed.promise.catch(() => undefined);
    const onFailure = failed.reject;
    const keys = { rootKey, runnerKey };
    const running = startBehindFront({ ...options, ...keys, dataDir, port, endpoint, signal, onFailure });
    const ready = running.then(() => {
      lock.announce(endpoint);
      if (!wasKilled) return;
      // Nobody waits for it: what it removes, nobody can name.
      removePartials(join(dataDir, "blobs"), { start }).catch((error) =>
        options.log.debug(`blobs that were not written to their end could not be removed: ${error}`),
      );
    });
    // The caller may look at it only later, or stop before.
    ready.catch(() => undefined);
    return {
      ...{ endpoint, rootKey, runnerKey, ready, failed: failed.promise },
      async stop() {
        stopped.abort();
        await (await running.catch(() => undefined))?.stop();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

interface WorkerOptions extends GatewayOptions {
  readonly rootKey: AccessKey;
  readonly runnerKey: AccessKey;
  readonly endpoint: string;
  /** The gateway is to stop, also before it is ready. */
  readonly signal: AbortSignal;
  /** Is told if it was stopped for a scrub and can't be started again. */
  readonly onFailure: (error: unknown) => void;
}

/** The gateway, behind a front if bodies are to be refused before it. */
async function startBehindFront({
  maxBodyBytes,
  ...options
}: WorkerOptions): Promise<{ stop(): Promise<void> }> {
  const { host, port } = options;
  if (maxBodyBytes === undefined) return await startWorker(options);
  const inner = { host: "127.0.0.1", port: await claimPort("127.0.0.1", 0) };
  const worker = await startWorker({ ...options, ...inner, endpoint: `http://127.0.0.1:${inner.port}` });
  const stop = () => worker.stop();
  try {
    const front = await openFront({ host, port, maxBodyBytes, gateway: inner });
    return { stop: () => front.close().finally(stop) };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startWorker(options: WorkerOptions): Promise<{ stop(): Promise<void> }> {
  const { host, port, dataDir, rootKey, runnerKey, endpoint, signal, onFailure } = options;
  const handles = new HandleWatch(() => workerdPid(dataDir));
  const log = handles.heeding(options.log);
  const { SLUICE_ENCRYPTION_KEY = keptEncryptionKey(dataDir), ...others } = options.settings ?? {};
  // A line for each request costs the host as much as the request does.
  const settings = { SLUICE_REQUEST_LOG: "off", ...others, SLUICE_ENCRYPTION_KEY };
  const blobsDir = join(dataDir, "blobs");
  const stateDir = join(dataDir, "state");
  const objectsDir = (className: string) => join(stateDir, objectsFolder(className));
  const folders = [blobsDir, stateDir, ...DATABASE_FOLDERS.map((folder) => join(stateDir, folder))];
  for (const folder of folders) makeOwnFolder(folder);

  const base = {
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    stateDir,
    workerdEnv: workerdEnvironment(dataDir),
    log,
  };
  const [code, consoleDir] = await Promise.all([
    workerCode(join(ROOT, "worker")),
    consoleFolder(join(dataDir, "console")),
    // Nothing runs on the folder before.
    payDebts("due", { stateDir, signal, log }).then(() => migrate(base)),
  ]);
  const hostToken = madeKey().secretAccessKey;
  const scrubs = new Scrubs({
    scrub: (extent) => payDebts(extent, { stateDir, signal, log }),
    whileAway: (work) => inTurn(() => whileAway(work)),
  });
  const flushed = new FlushedBlobs(blobsDir);
  const answer = hostCalls(hostToken, {
    "/flush": async (request) => {
      const flush = await flushed.answer(request);
      handles.heed(flush.failure?.message ?? "");
      return flush;
    },
    "/scrub": (request) => scrubs.answer(request),
    "/disks": () => disksOf([blobsDir, stateDir]),
    "/handles": async () => handles.answer(),
    "/log": async () => ({ lines: readKeptLog(dataDir) }) satisfies KeptLines,
  });
  const bindings = {
    ...textBindings({
      SLUICE_ACCESS_KEY_ID: rootKey.accessKeyId,
      SLUICE_SECRET_ACCESS_KEY: rootKey.secretAccessKey,
      SLUICE_RUNNER_ACCESS_KEY_ID: runnerKey.accessKeyId,
      SLUICE_RUNNER_SECRET_ACCESS_KEY: runnerKey.secretAccessKey,
      SLUICE_HOST_TOKEN: hostToken,
      ...settings,
    }),
    ...Object.fromEntries(OBJECT_CLASSES.flatMap((name) => objectBindings(name, objectsDir(name)))),
    DB: DATABASE,
    DISK: { type: "disk", path: blobsDir, writable: true } as const,
    CONSOLE: { type: "disk", path: consoleDir, writable: false } as const,
    HOST: { type: "host", answer } as const,
  };
  const listen = { host, port };
  const inTurn = turns();
  const reserve = new HandleReserve();
  const start = async (): Promise<Miniflare> => {
    let started: Miniflare | undefined;
    const onDeath = () => {
      // One that does not come up is told by an error.
      if (!started) return;
      log.warn("the runtime ended by itself and is started anew: its connections are cut");
      reserve.release();
      void inTurn(() => bringBack(started));
    };
    const own = { code, bindings, objectClasses: OBJECT_CLASSES, listen, onDeath };
    started = await startRuntime({ ...base, ...own });
    try {
      await waitUntilHealthy(endpoint);
    } catch (error) {
      await started.dispose();
      throw error;
    }
    return started;
  };
  let runtime: Miniflare | undefined = await start();
  reserve.take();

  async function whileAway(work: () => Promise<void>): Promise<void> {
    await runtime?.dispose();
    runtime = undefined;
    // It must not run, whatever became of the signal that was to end it.
    await endOrphan(dataDir);
    const away = await openAway(listen);
    try {
      await work();
    } finally {
      await away?.close();
      // Whoever stopped the gateway meanwhile does not want it back.
      if (!signal.aborted) {
        runtime = await start().catch((error) => {
          onFailure(error);
          throw error;
        });
      }
    }
  }

  /** Waits until another runtime is there in place of one that died. If it can't be started, it is tried until it can, or the gateway is stopped. */
  async function bringBack(died: Miniflare | undefined): Promise<void> {
    if (!died || runtime !== died) return;
    let reason = await died.ready.then(() => undefined, causeOf);
    for (let waitMs = FIRST_WAIT_MS; reason !== undefined; waitMs = Math.min(2 * waitMs, LAST_WAIT_MS)) {
      log.error(`the runtime can't be started, trying again: ${reason}`);
      await pause(waitMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      await runtime?.dispose().catch(() => undefined);
      runtime = undefined;
      try {
        await endOrphan(dataDir);
        runtime = await start();
        reason = undefined;
      } catch (error) {
        reason = causeOf(error);
      }
    }
    reserve.take();
    log.info("the runtime runs again");
  }

  return {
    async stop() {
      await scrubs.rest();
      await inTurn(async () => void (await runtime?.dispose()));
      reserve.release();
    },
  };
}

/** Between two tries to start a runtime in place of one that died. */
const FIRST_WAIT_MS = 250;
const LAST_WAIT_MS = 5000;

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} ${error.cause.message}` : error.message;
}

/** Does one thing after the other. */
function turns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
}

/** What was erased goes from the files of those that held it, and the log tells of it. What can't be done now is tried at the next start. */
async function payDebts(
  extent: ScrubExtent,
  { stateDir, signal, log }: Pick<RuntimeOptions, "stateDir" | "log"> & Pick<WorkerOptions, "signal">,
): Promise<Scrubbed | undefined> {
  const done = await scrubApart({ stateDir, extent, now: Date.now() }, { signal });
  if (!done) return undefined;
  const kib = (bytes: number): string => `${Math.ceil(bytes / 1024)} KiB`;
  log.info(
    `scrub: ${done.rewritten} databases were written anew, without what was erased (${kib(done.bytesBefore)}, now ${kib(done.bytesAfter)})`,
  );
  for (const { file, message } of done.failed) {
    log.warn(`scrub: ${file} could not be written anew and may still have what was erased: ${message}`);
  }
  return done;
}

function objectsFolder(className: string): string {
  return join("do", `${WORKER_NAME}-${className}`);
}

/** How a gateway that listens on `host` is reached from this machine, as part of a URL. */
function reachableHost(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return host.includes(":") ? `[${host}]` : host;
}

// Before the gateway's own start, so that nobody ever meets a gateway whose catalogue is not there yet. It takes a
// runtime of its own, which is started only if there is something to apply.
async function migrate(base: Omit<RuntimeOptions, "code" | "bindings" | "objectClasses">): Promise<void> {
  const { stateDir } = base;
  if (isMigrated({ stateDir, database: DATABASE.id, folder: MIGRATIONS })) return;
  const runtime = await startRuntime({
    ...base,
    code: MIGRATOR,
    bindings: { DB: DATABASE },
    objectClasses: [],
  });
  try {
    const applied = await applyMigrations(await runtime.getD1Database("DB"), MIGRATIONS);
    for (const file of applied) base.log.debug(`applied ${file}`);
  } finally {
    await runtime.dispose();
  }
}

function textBindings(values: Readonly<Record<string, string>>): Record<string, Binding> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, { type: "text", value } as const]),
  );
}

/** The objects of a class, as `BRANCH`, and the folder with their databases, as `BRANCH_FILES`. */
function objectBindings(className: string, path: string): [string, Binding][] {
  const name = className.toUpperCase();
  return [
    [name, { type: "durable-object", worker: WORKER_NAME, exportName: className }],
    [`${name}_FILES`, { type: "disk", path, writable: false }],
  ];
}

/**
 * What the Worker asks of the host, which does what the runtime can't; `paths` are what answers. Every request must present
 * `token`: others on the machine reach the host as well.
 */
function hostCalls(
  token: string,
  paths: Readonly<Record<string, (request: HostRequest) => Promise<unknown>>>,
): (request: HostRequest) => Promise<HostAnswer> {
  const known = new Map(Object.entries(paths));
  return async (request) => {
    if (!isSame(request.headers.get("authorization") ?? "", token)) return { status: 403, body: null };
    const answer = known.get(new URL(request.url).pathname);
    return answer ? { status: 200, body: await answer(request) } : { status: 404, body: null };
  };
}

/** What is free to this user on the file systems of these folders; bytes. */
async function disksOf(folders: readonly string[]): Promise<HostDisks> {
  const looked = await Promise.all(folders.map((folder) => statfs(folder)));
  return {
    spaces: looked.map(({ bavail, blocks, bsize }) => {
      return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
    }),
  };
}

function isSame(given: string, token: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}
