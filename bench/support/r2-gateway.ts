import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import { startOwnGateway } from "./own-gateway.ts";
import { type BenchGateway, inFolder } from "./servers.ts";

const GATEWAY = new URL("../../worker/index.ts", import.meta.url);

/** The gateway with its blobs in R2's simulator, on the same kind of host as the embedded one: `wrangler dev` would be what is measured. */
export async function startR2Gateway(): Promise<BenchGateway> {
  const dataDir = scratchFolder();
  const started = startOwnGateway({ entry: GATEWAY, store: "r2", dataDir });
  const { door, stop } = await started.catch((error: unknown) => {
    removeScratch(dataDir);
    throw error;
  });
  return { endpoint: door.endpoint, door, ...inFolder(dataDir, { store: "r2", end: stop }) };
}
