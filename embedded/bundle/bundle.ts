import { basename, resolve } from "node:path";
import { build, stop } from "esbuild";
import type { WorkerCode } from "../workerd/runtime.ts";

/** A bundled Worker and the files that it is made of, as absolute paths. */
export interface Bundle extends WorkerCode {
  readonly inputs: readonly string[];
}

/**
 * The whole Worker, resolved the way `wrangler` resolves it: one ES module, with the WebAssembly modules beside it, which
 * the platform compiles only if they come as modules. Inline source maps make stack traces name the real files.
 */
export async function bundleWorker(
  entry: string,
  { sourceMap = "inline" }: { readonly sourceMap?: "inline" | "none" } = {},
): Promise<Bundle> {
  const result = await build({
    entryPoints: [entry],
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
    sourcemap: sourceMap === "none" ? false : sourceMap,
    metafile: true,
    logLevel: "silent",
  });
  // Else esbuild's service process lives as long as we do.
  await stop();
  const outputs = result.outputFiles;
  const main = outputs.find(({ path }) => path.endsWith(".js"));
  if (!main) throw new Error(`${entry} made no output`);
  const wasm = outputs.filter(({ path }) => path.endsWith(".wasm"));
  return {
    main: main.text,
    wasm: new Map(wasm.map(({ path, contents }) => [basename(path), new Uint8Array(contents)])),
    inputs: Object.keys(result.metafile.inputs).map((path) => resolve(path)),
  };
}
