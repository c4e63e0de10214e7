import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { WorkerCode } from "../workerd/runtime.ts";

/** The Worker of a folder: bundled already, as the package brings it, or from its sources. */
export async function workerCode(folder: string): Promise<WorkerCode> {
  const bundled = join(folder, "index.js");
  if (existsSync(bundled)) {
    return { main: readFileSync(bundled, "utf8"), wasm: wasmModules(folder) };
  }
  // Loaded only here: the package has neither this nor the bundler.
  const { keptBundle } = await import("./bundle.ts");
  return keptBundle(join(folder, "index.ts"));
}

function wasmModules(folder: string): WorkerCode["wasm"] {
  const names = readdirSync(folder).filter((name) => name.endsWith(".wasm"));
  return new Map(names.map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))]));
}
