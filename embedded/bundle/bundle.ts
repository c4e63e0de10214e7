import { basename, join, resolve } from "node:path";
import { z } from "zod";
import type { WorkerCode } from "../workerd/runtime.ts";
import { CACHE, keptBuild, runEsbuild, sha256 } from "./kept.ts";

const ROOT = join(import.meta.dirname, "../..");

/** What decides how the bundle is made, besides the files that it is made of and what decides on every build. */
const MADE_BY = ["embedded/bundle/bundle.ts", "worker/tsconfig.json"].map((path) => join(ROOT, path));

/** A bundled Worker and the files that it is made of, as absolute paths. */
export interface Bundle extends WorkerCode {
  readonly inputs: readonly string[];
}

/**
 * The whole Worker, resolved the way `wrangler` resolves it: one ES module, with the WebAssembly modules beside it, which
 * the platform compiles only if they come as modules.
 */
export async function bundleWorker(entry: string): Promise<Bundle> {
  const result = await runEsbuild({
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

/** The bytes of files by their names, in base64. */
export const KeptFiles = z
  .record(z.string(), z.base64())
  .transform(
    (files) =>
      new Map(
        Object.entries(files).map(([name, base64]) => [name, new Uint8Array(Buffer.from(base64, "base64"))]),
      ),
  );

/** What KeptFiles reads. */
export function keptFiles(files: ReadonlyMap<string, Uint8Array>): Record<string, string> {
  return Object.fromEntries([...files].map(([name, bytes]) => [name, Buffer.from(bytes).toString("base64")]));
}

const KeptWorker = z.object({ main: z.string(), sourceMap: z.string(), wasm: KeptFiles });

/**
 * The Worker of an entry, from the bundle that an earlier start kept in `cache` if every file that it was made of still has
 * the same content.
 */
export async function keptBundle(entry: string, cache: string = CACHE): Promise<WorkerCode> {
  return await keptBuild<WorkerCode>({
    // Trees that share their packages keep a bundle each.
    file: join(cache, `worker-${sha256(entry).slice(0, 16)}`),
    async make() {
      const { inputs, ...value } = await bundleWorker(entry);
      return { value, inputs: [...inputs, ...MADE_BY] };
    },
    form: KeptWorker,
    encode: ({ wasm, ...code }) => ({ ...code, wasm: keptFiles(wasm) }),
  });
}
