import { join } from "node:path";
import { healthy, ROOT, type Server, scratchHome } from "./dev-server.ts";
import { type Door, ROOT_KEY } from "./keys.ts";
import { freePort } from "./ports.ts";
import { mustRun, type Started, start } from "./processes.ts";
import { removeScratch, scratchFolder } from "./scratch.ts";

// Keeps wrangler off the network and out of the requests' way; without the last one an answer that comes before the
// whole body was read waits for the body.
const WRANGLER_ENV = {
  HOME: scratchHome,
  CI: "1",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
  X_LOCAL_EXPLORER: "false",
  WRANGLER_DISABLE_REQUEST_BODY_DRAINING: "true",
};

const START_TRIES = 3;

/** Starts `wrangler dev` (R2 simulator) on a free port, with its database migrated before. */
export async function startWrangler(): Promise<Server> {
  const data = scratchFolder();
  await mustRun(["npm", "run", "migrate:local", "--", "--persist-to", data], {
    cwd: ROOT,
    env: WRANGLER_ENV,
  });
  const port = await freePort();
  const door: Door = { endpoint: `http://127.0.0.1:${port}`, ...ROOT_KEY };
  const started = await startHealthy(door, data);
  return {
    ...door,
    async stop() {
      await started.stop();
      removeScratch(data);
    },
  };
}

// Its bundler's watcher is known to die at the start now and then, and takes the server with it.
async function startHealthy(door: Door, data: string): Promise<Started> {
  for (let tried = 1; ; tried++) {
    const started = start(wranglerCommand(door, data), { cwd: ROOT, env: WRANGLER_ENV });
    try {
      await healthy(door.endpoint, started);
      return started;
    } catch (error) {
      await started.kill9();
      if (tried === START_TRIES) throw error;
    }
  }
}

function wranglerCommand({ endpoint, accessKeyId, secretAccessKey }: Door, data: string): string[] {
  return [
    join(ROOT, "node_modules/.bin/wrangler"),
    "dev",
    ...["--ip", "127.0.0.1", "--port", new URL(endpoint).port, "--persist-to", data],
    ...["--var", `SLUICE_ACCESS_KEY_ID:${accessKeyId}`],
    ...["--var", `SLUICE_SECRET_ACCESS_KEY:${secretAccessKey}`],
    ...["--show-interactive-dev-session=false", "--log-level=warn"],
  ];
}
