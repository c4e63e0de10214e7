import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundleWorker } from "../../embedded/bundle/bundle.ts";
import { buildConsole } from "../../embedded/bundle/console.ts";
import { type Compiled, compileModules } from "./modules.ts";

const ROOT = join(import.meta.dirname, "../..");
const ENTRIES = ["cli/main.ts"];
/** The package brings the Worker and the console built. */
const WITHOUT = ["embedded/bundle/bundle.ts", "embedded/bundle/console.ts"];
/** Read by the program, at these places below its root. */
const ASSETS = ["wrangler.toml", "migrations", "embedded/workerd/workerd-child.sh"];

/**
 * Makes what the package and the image run instead of the sources, since Node takes no TypeScript from `node_modules`: the
 * program as JavaScript in the same folders, the Worker bundled, the console built, and what else the program reads. What the folder held
 * goes.
 */
export async function buildProgram(folder: string): Promise<void> {
  const put = putInto(folder);
  const modules = await compileModules({ root: ROOT, entries: ENTRIES, without: WITHOUT });
  rmSync(folder, { recursive: true, force: true });
  for (const { path, code } of modules) put(path, code);
  for (const asset of ASSETS) cpSync(join(ROOT, asset), join(folder, asset), { recursive: true });
  putPackageJson(put);
  await putWorker(put);
  await putConsole(put);
  for (const module of modules) checkNames(module, folder);
}

type Put = (path: string, content: string | Uint8Array) => void;

function putInto(folder: string): Put {
  return (path, content) => {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  };
}

/** The version is read from beside the program's folders. */
function putPackageJson(put: Put): void {
  const { name, version, type } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  put("package.json", `${JSON.stringify({ name, version, type })}\n`);
}

async function putWorker(put: Put): Promise<void> {
  const { main, wasm, inputs } = await bundleWorker(join(ROOT, "worker/index.ts"));
  put("worker/index.js", main);
  for (const [name, bytes] of wasm) put(`worker/${name}`, bytes);
  const wasmLicence = readFileSync(join(ROOT, "worker/blobs/hash/wasm/LICENSE"), "utf8").trim();
  const notices = noticesOf(inputs);
  put(
    "worker/NOTICES",
    `${notices}\n\nhash-wasm (crc32.wasm, crc64.wasm, xxhash3.wasm, xxhash64.wasm, xxhash128.wasm)\n\n${wasmLicence}\n`,
  );
}

async function putConsole(put: Put): Promise<void> {
  const { value: files, inputs } = await buildConsole();
  for (const [name, bytes] of files) put(`console/built/${name}`, bytes);
  put("console/NOTICES", `${noticesOf(inputs)}\n`);
}

/** A file that a module names by its own place must be there; a name with `.ts` is one that was not compiled. */
function checkNames({ path, code }: Compiled, folder: string): void {
  const named = [
    ...code.matchAll(/import\.meta\.dirname, "([^"]+)"/g),
    ...code.matchAll(/new URL\("([^"]+)", import\.meta\.url\)/g),
  ];
  for (const [, name = ""] of named) {
    if (existsSync(join(folder, dirname(path), name))) continue;
    throw new Error(`${path} needs ${name} beside it, which the package lacks: see ASSETS`);
  }
}

const LICENCE = /^(licen[cs]e|notice)/i;

/** The licences of the packages that a bundle is made of, one after the other. `inputs`: its files, as absolute paths. */
function noticesOf(inputs: readonly string[]): string {
  const folders = new Set(inputs.flatMap((input) => packageFolder(input) ?? []));
  return [...folders].sort().map(noticeOf).join("\n\n");
}

/** `/…/node_modules/zod` of `/…/node_modules/zod/v4/core/api.js`; the innermost one if packages hold packages. */
function packageFolder(input: string): string | undefined {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0];
}

/** Some packages bring no text but only say its name. Throws if one does not even do that. */
function noticeOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  if (!license) throw new Error(`${name} is part of the bundled Worker and tells no licence`);
  const files = readdirSync(folder).filter((file) => LICENCE.test(file));
  const texts = files.sort().map((file) => readFileSync(join(folder, file), "utf8").trim());
  return [`${name} ${version} (${license})`, ...texts].join("\n\n");
}
