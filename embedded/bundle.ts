import { build, stop } from "esbuild";

/**
 * The whole Worker as one ES module, resolved the way `wrangler` resolves it. Inline source maps make stack traces name
 * the real files.
 */
export async function bundleWorker(entry: string): Promise<string> {
  const result = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "esm",
    platform: "browser",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    keepNames: true,
    sourcemap: "inline",
    logLevel: "silent",
  });
  // Else esbuild's service process lives as long as we do.
  await stop();
  const [output] = result.outputFiles;
  if (!output) throw new Error(`${entry} made no output`);
  return output.text;
}
