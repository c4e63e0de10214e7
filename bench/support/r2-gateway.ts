import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import { startOwnGateway } from "./own-gateway.ts";
import { type BenchGateway, farBinding, inFolder } from "./servers.ts";

const GATEWAY = new URL("../../worker/index.ts", import.meta.url);
const FAR_GATEWAY = new URL("../workers/far-r2.js", import.meta.url);

/**
 * The gateway with its blobs in R2's simulator, on the same kind of host as the embedded one: `wrangler dev` would be what is
 * measured. `farMs`: by how much the bucket answers reads late.
 */
export async function startR2Gateway({ farMs = 0 }: { farMs?: number } = {}): Promise<BenchGateway> {
  const dataDir = scratchFolder();
  const entry = farMs === 0 ? GATEWAY : FAR_GATEWAY;
  // What is kept near the reader is no read of a branch, nor of R2.
  const off = { type: "text", value: "off" } as const;
  const bindings = { ...farBinding(farMs), SLUICE_BLOB_CACHE: off, SLUICE_ROW_CACHE: off };
  const started = startOwnGateway({ entry, store: "r2", dataDir, bindings });
  const { door, stop } = await started.catch((error: unknown) => {
    removeScratch(dataDir);
    throw error;
  });
  return { endpoint: door.endpoint, door, ...inFolder(dataDir, { store: "r2", end: stop }) };
}
