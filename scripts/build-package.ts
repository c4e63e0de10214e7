import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundleWorker } from "../embedded/bundle/bundle.ts";
import { type Compiled, compileModules } from "./package/modules.ts";
import { noticesOf } from "./package/notices.ts";

/**
 * `npm pack` runs this first. Makes `dist/`, what the package runs instead of the sources, since Node takes no
 * TypeScript from `node_modules`: the program as JavaScript in the same folders, the Worker bundled, and what else the
 * program reads. `bin/sluice.js` takes the sources if they are there, so nothing in the repository needs this.
 */

const ROOT = join(import.meta.dirname, "..");
const DIST = join(ROOT, "dist");
const ENTRIES = ["cli/main.ts"];
/** The package brings the Worker bundled. */
const WITHOUT = ["embedded/bundle/bundle.ts"];
/** Read by the program, at these places below its root. */
const ASSETS = ["wrangler.toml", "migrations", "embedded/workerd/workerd-child.sh"];

const modules = await compileModules({ root: ROOT, entries: ENTRIES, without: WITHOUT });
rmSync(DIST, { recursive: true, force: true });
for (const { path, code } of modules) put(path, code);
for (const asset of ASSETS) cpSync(join(ROOT, asset), join(DIST, asset), { recursive: true });
putPackageJson();
await putWorker();
for (const module of modules) checkNames(module);

function put(path: string, content: string | Uint8Array): void {
  const file = join(DIST, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}

/** The version is read from beside the program's folders. */
function putPackageJson(): void {
  const { name, version, type } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  put("package.json", `${JSON.stringify({ name, version, type })}\n`);
}

async function putWorker(): Promise<void> {
  const { main, wasm, inputs } = await bundleWorker(join(ROOT, "worker/index.ts"));
  put("worker/index.js", main);
  for (const [name, bytes] of wasm) put(`worker/${name}`, bytes);
  const wasmLicence = readFileSync(join(ROOT, "worker/blobs/hash/wasm/LICENSE"), "utf8").trim();
  const notices = noticesOf(inputs);
  put("worker/NOTICES", `${notices}\n\nhash-wasm (crc32.wasm, crc64.wasm)\n\n${wasmLicence}\n`);
}

/** A file that a module names by its own place must be there; a name with `.ts` is one that was not compiled. */
function checkNames({ path, code }: Compiled): void {
  const named = [
    ...code.matchAll(/import\.meta\.dirname, "([^"]+)"/g),
    ...code.matchAll(/new URL\("([^"]+)", import\.meta\.url\)/g),
  ];
  for (const [, name = ""] of named) {
    if (existsSync(join(DIST, dirname(path), name))) continue;
    throw new Error(`${path} needs ${name} beside it, which the package lacks: see ASSETS`);
  }
}
