import { hash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rm, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { z } from "zod";
import type { WorkerCode } from "../workerd/runtime.ts";

const ROOT = join(import.meta.dirname, "../..");
const CACHE = join(ROOT, "node_modules/.cache/sluice");

/** What decides how a bundle is made, besides the files that it is made of: our options, the compiler's, the versions of all packages. */
const MADE_BY = [
  "embedded/bundle/bundle.ts",
  "worker/tsconfig.json",
  "tsconfig.json",
  "package.json",
  "node_modules/.package-lock.json",
].map((path) => join(ROOT, path));

const CLOCK_TICK_MS = 50;

/** A bundled Worker and the files that it is made of, as absolute paths. */
export interface Bundle extends WorkerCode {
  readonly inputs: readonly string[];
}

/**
 * The whole Worker, resolved the way `wrangler` resolves it: one ES module, with the WebAssembly modules beside it, which
 * the platform compiles only if they come as modules.
 */
export async function bundleWorker(entry: string): Promise<Bundle> {
  // Loaded only here: a start that finds a kept bundle does without it.
  const { build, stop } = await import("esbuild");
  const result = await build({
    entryPoints: [entry],
    absWorkingDir: ROOT,
    bundle: true,
    write: false,
    // Nothing is written there: it gives the names of the modules something to be relative to.
    outdir: "/",
    format: "esm",
    platform: "browser",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    loader: { ".wasm": "copy" },
    sourcemap: "external",
    sourcesContent: false,
    metafile: true,
    logLevel: "silent",
  });
  // Else esbuild's service process lives as long as we do.
  await stop();
  const outputs = result.outputFiles;
  const main = outputs.find(({ path }) => path.endsWith(".js"));
  const sourceMap = outputs.find(({ path }) => path.endsWith(".map"));
  if (!main || !sourceMap) throw new Error(`${entry} made no output`);
  const wasm = outputs.filter(({ path }) => path.endsWith(".wasm"));
  return {
    main: main.text,
    sourceMap: sourceMap.text,
    wasm: new Map(wasm.map(({ path, contents }) => [basename(path), new Uint8Array(contents)])),
    inputs: Object.keys(result.metafile.inputs).map((path) => resolve(ROOT, path)),
  };
}

const Kept = z.object({
  /** SHA-256 of each file that the bundle depends on, by its path; null: it was not there. */
  madeOf: z.record(z.string(), z.string().nullable()),
  main: z.string(),
  sourceMap: z.string(),
  wasm: z.record(z.string(), z.base64()),
});

/**
 * The Worker of an entry, from the bundle that an earlier start kept in `cache` if every file that it was made of still has
 * the same content. Bundling takes a second, hashing the files a fiftieth of that.
 */
export async function keptBundle(entry: string, cache: string = CACHE): Promise<WorkerCode> {
  // Trees that share their packages keep a bundle each.
  const file = join(cache, `worker-${sha256(entry).slice(0, 16)}`);
  const kept = readKept(file);
  if (kept) return kept;
  const startedAt = Date.now();
  const { inputs, ...code } = await bundleWorker(entry);
  const files = [...inputs, ...MADE_BY];
  if (!files.some((path) => mayHaveChangedSince(path, startedAt))) keep(file, { code, files });
  return code;
}

/** Undefined if there is none, if it is damaged, or if a file has changed since: it is then made again. */
function readKept(file: string): WorkerCode | undefined {
  try {
    const text = readFileSync(file, "utf8");
    const body = text.slice(text.indexOf("\n") + 1);
    if (!text.startsWith(`${sha256(body)}\n`)) return undefined;
    const { madeOf, wasm, ...code } = Kept.parse(JSON.parse(body));
    if (Object.entries(madeOf).some(([path, digest]) => digestOf(path) !== digest)) return undefined;
    const modules = Object.entries(wasm).map(
      ([name, base64]) => [name, Buffer.from(base64, "base64")] as const,
    );
    return { ...code, wasm: new Map(modules) };
  } catch {
    return undefined;
  }
}

// Whole under its own name first: starts that meet, or are killed, never leave half a bundle. If it can't be kept, as in
// a folder that is read-only, each start bundles.
function keep(file: string, { code, files }: { code: WorkerCode; files: readonly string[] }): void {
  const draft = `${file}.${process.pid}`;
  const madeOf = Object.fromEntries(files.map((path) => [path, digestOf(path)]));
  const wasm = [...code.wasm].map(([name, bytes]) => [name, Buffer.from(bytes).toString("base64")]);
  const body = JSON.stringify({ ...code, madeOf, wasm: Object.fromEntries(wasm) });
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(draft, `${sha256(body)}\n${body}`);
    renameSync(draft, file);
  } catch {
    rm(draft, { force: true }, () => undefined);
  }
}

// The bundler may have read it before the change, and we would hash it after. File times lag behind the clock a little.
function mayHaveChangedSince(path: string, startedAt: number): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > startedAt - CLOCK_TICK_MS;
}

function digestOf(path: string): string | null {
  try {
    return sha256(readFileSync(path));
  } catch {
    return null;
  }
}

function sha256(content: string | Uint8Array): string {
  return hash("sha256", content);
}
