import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeOwnFolder } from "../data/folders.ts";
import type { WorkerCode } from "../workerd/runtime.ts";

const DRAFT = ".draft";
const BUILT = join(import.meta.dirname, "../../console/built");

/** The folder with the files of the console: as the package brings it, or built from its sources into `folder`. */
export async function consoleFolder(folder: string): Promise<string> {
  if (existsSync(BUILT)) return BUILT;
  // Loaded only here: the package has neither this nor the bundler.
  const { keptConsole } = await import("./console.ts");
  putFiles(folder, await keptConsole());
  return folder;
}

/** Makes a folder hold these files and no others. The page comes last, since it names the others. */
export function putFiles(folder: string, files: ReadonlyMap<string, Uint8Array>): void {
  makeOwnFolder(folder);
  const isPage = ([name]: readonly [string, Uint8Array]): number => (name.endsWith(".html") ? 1 : 0);
  for (const [name, bytes] of [...files].sort((a, b) => isPage(a) - isPage(b))) {
    const file = join(folder, name);
    // The name of any other one says what is in it, since nothing that is not whole gets the name, also in a power cut.
    if (!name.endsWith(".html") && statSync(file, { throwIfNoEntry: false })?.size === bytes.length) continue;
    const draft = `${file}.${process.pid}${DRAFT}`;
    writeFileSync(draft, bytes, { flush: true });
    renameSync(draft, file);
  }
  for (const name of readdirSync(folder)) {
    // Builds that meet do not take each other's drafts away.
    if (!files.has(name) && !name.endsWith(DRAFT))
      rmSync(join(folder, name), { recursive: true, force: true });
  }
}

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
