import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleWorker } from "../../embedded/bundle/bundle.ts";
import { applyMigrations } from "../../embedded/data/migrations.ts";
import { waitUntilHealthy } from "../../embedded/health.ts";
import { claimPort } from "../../embedded/port.ts";
import {
  type Binding,
  readRuntimeConfig,
  startRuntime,
  WORKER_NAME,
} from "../../embedded/workerd/runtime.ts";
import { workerdEnvironment } from "../../embedded/workerd/workerd.ts";
import { type Door, ROOT_KEY } from "../../test/support/keys.ts";
import { blobBinding, HOST, log, ROOT, type Store } from "./servers.ts";

/** A gateway that is not quite the embedded one. */
export interface OwnGateway {
  readonly door: Door;
  /** Its data stays. */
  stop(): Promise<void>;
}

/**
 * Starts a Worker that exports what the gateway exports, over a data folder laid out as the embedded gateway's, on
 * the same kind of host.
 */
export async function startOwnGateway({
  entry,
  store,
  dataDir,
  bindings,
}: {
  entry: URL;
  store: Store;
  dataDir: string;
  /** Beside the gateway's own. */
  bindings?: Record<string, Binding>;
}): Promise<OwnGateway> {
  const stateDir = join(dataDir, "state");
  mkdirSync(stateDir);
  const port = await claimPort(HOST, 0);
  const endpoint = `http://${HOST}:${port}`;
  const runtime = await startRuntime({
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    code: await bundleWorker(fileURLToPath(entry)),
    stateDir,
    workerdEnv: workerdEnvironment(dataDir),
    bindings: {
      BRANCH: objectBinding("Branch"),
      PIPELINE: objectBinding("Pipeline"),
      FLEET: objectBinding("Fleet"),
      DB: { type: "d1", id: "sluice" },
      ...blobBinding(store, dataDir),
      SLUICE_ACCESS_KEY_ID: { type: "text", value: ROOT_KEY.accessKeyId },
      SLUICE_SECRET_ACCESS_KEY: { type: "text", value: ROOT_KEY.secretAccessKey },
      ...bindings,
    },
    objectClasses: ["Branch", "Pipeline", "Fleet"],
    listen: { host: HOST, port },
    log,
  });
  try {
    await applyMigrations(await runtime.getD1Database("DB"), join(ROOT, "migrations"));
    await waitUntilHealthy(endpoint);
  } catch (error) {
    await runtime.dispose();
    throw error;
  }
  return { door: { endpoint, ...ROOT_KEY }, stop: () => runtime.dispose() };
}

function objectBinding(exportName: string): Binding {
  return { type: "durable-object", worker: WORKER_NAME, exportName };
}
