import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { bundleWorker } from "../../embedded/bundle.ts";
import { waitUntilHealthy } from "../../embedded/health.ts";
import { applyMigrations } from "../../embedded/migrations.ts";
import { claimPort } from "../../embedded/port.ts";
import { type Binding, startRuntime, WORKER_NAME } from "../../embedded/runtime.ts";
import { workerdEnvironment } from "../../embedded/workerd.ts";
import { readRuntimeConfig } from "../../embedded/wrangler-config.ts";
import { ROOT_KEY } from "../../test/support/keys.ts";
import { scratchFolder } from "../../test/support/scratch.ts";
import { type BenchGateway, blobBinding, HOST, inFolder, log, ROOT } from "./servers.ts";

/** The gateway with its blobs in R2's simulator, on the same kind of host as the embedded one: `wrangler dev` would be what is measured. */
export async function startR2Gateway(): Promise<BenchGateway> {
  const dataDir = scratchFolder();
  const stateDir = join(dataDir, "state");
  mkdirSync(stateDir);
  const port = await claimPort(HOST, 0);
  const endpoint = `http://${HOST}:${port}`;
  const runtime = await startRuntime({
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    code: await bundleWorker(join(ROOT, "worker/index.ts")),
    stateDir,
    workerdEnv: workerdEnvironment(dataDir),
    bindings: {
      BRANCH: objectBinding("Branch"),
      PIPELINE: objectBinding("Pipeline"),
      DB: { type: "d1", id: "sluice" },
      ...blobBinding("r2", dataDir),
      SLUICE_ACCESS_KEY_ID: { type: "text", value: ROOT_KEY.accessKeyId },
      SLUICE_SECRET_ACCESS_KEY: { type: "text", value: ROOT_KEY.secretAccessKey },
    },
    objectClasses: ["Branch", "Pipeline"],
    listen: { host: HOST, port },
    log,
  });
  await applyMigrations(await runtime.getD1Database("DB"), join(ROOT, "migrations"));
  await waitUntilHealthy(endpoint);
  return {
    endpoint,
    door: { endpoint, ...ROOT_KEY },
    ...inFolder(dataDir, { store: "r2", end: () => runtime.dispose() }),
  };
}

function objectBinding(exportName: string): Binding {
  return { type: "durable-object", worker: WORKER_NAME, exportName };
}
