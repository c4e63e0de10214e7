import type { BuildOptions, BuildResult } from "esbuild";

let running = 0;

/** One build. The bundler's process ends with the last build that runs: else it lives as long as we do. */
export async function runEsbuild<T extends BuildOptions>(options: T): Promise<BuildResult<T>> {
  // Loaded only here: a start that finds what was kept does without it.
  const { build, stop } = await import("esbuild");
  running++;
  try {
    return await build<T>(options as never);
  } finally {
    running--;
    // It is one process for all: to stop it under another build would leave that one waiting for ever.
    if (running === 0) await stop();
  }
}
