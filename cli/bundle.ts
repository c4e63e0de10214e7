import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Plugin } from "esbuild";

/**
 * The commands as few files. To find and to load a module takes Node about a millisecond, and a command is made of 250, most
 * of them zod's and undici's. So `bin/sluice.js` has the modules put together with the packages that they need, and starts
 * that. If one of them is not as it was, all are put together anew: there is nothing to clear by hand.
 *
 * Each bundle has a folder of its own, which is never changed: a command that runs for long still loads parts of the one
 * that it began with. `made.json` beside the folders names the newest one, and what it was made of.
 */

const ROOT = join(import.meta.dirname, "..");
const ENTRY = "cli/main.ts";

/** What commands load that `bin/sluice.js` never starts from a bundle. */
const APART = [
  "cli/local/run-dev.ts",
  "cli/local/run-runner.ts",
  "cli/replay/run-datum.ts",
  "cli/doctor/run-doctor.ts",
  "cli/support/run-support.ts",
];

/** Packages of CommonJS ask for the modules of Node by `require`, which a module has to make for itself. */
const BANNER = `import { createRequire as requireOf } from "node:module";
const require = requireOf(import.meta.url);`;

/** What says which packages there are: they change with these. */
const PACKAGES = ["package.json", "package-lock.json", "node_modules/.package-lock.json"];

/** A folder that nobody began to use for so long goes. */
const FOLDER_LIFE_MS = 24 * 3_600_000;

/** Makes a bundle in a folder below `cache`. Nothing is made of sources that change meanwhile: the next start sees to it. */
export async function bundleCommands(cache: string): Promise<void> {
  // Loaded here, since almost no start has to make one.
  const { build, stop } = await import("esbuild");
  const startedAt = Date.now();
  const folder = `commands-${randomBytes(8).toString("hex")}`;
  try {
    const { metafile } = await build({
      absWorkingDir: ROOT,
      entryPoints: [ENTRY],
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: `node${process.versions.node}`,
      outdir: join(cache, folder),
      // Node would have to find out by parsing what a file is that its name does not say.
      outExtension: { ".js": ".mjs" },
      banner: { js: BANNER },
      plugins: [staysApart, knowsItsPlace],
      metafile: true,
      logLevel: "silent",
    });
    const modules = Object.keys(metafile.inputs).filter((path) => !path.includes("node_modules/"));
    const files = [...modules, ...PACKAGES].flatMap((path) => {
      const found = statSync(join(ROOT, path), { throwIfNoEntry: false });
      return found ? [[path, found.mtimeMs, found.size] as const] : [];
    });
    if (files.some(([, changedAt]) => changedAt >= startedAt)) return;
    // The folder of packages may be a copy of another repository's, and this with it.
    const made = { root: ROOT, folder, files };
    writeFileSync(join(cache, folder, "made.json"), JSON.stringify(made));
    renameSync(join(cache, folder, "made.json"), join(cache, "made.json"));
    removeOld(cache, { but: folder, startedAt });
  } finally {
    await stop();
  }
}

function removeOld(cache: string, { but, startedAt }: { but: string; startedAt: number }): void {
  for (const name of readdirSync(cache)) {
    const path = join(cache, name);
    const isOld = (): boolean => startedAt - statSync(path).mtimeMs > FOLDER_LIFE_MS;
    if (name.startsWith("commands-") && name !== but && isOld())
      rmSync(path, { recursive: true, force: true });
  }
}

const staysApart: Plugin = {
  name: "stays-apart",
  setup(builder) {
    builder.onResolve({ filter: /\/run-[a-z]+\.ts$/ }, ({ path, resolveDir }) => {
      const file = join(resolveDir, path);
      const isApart = APART.some((apart) => join(ROOT, apart) === file);
      return isApart ? { path: pathToFileURL(file).href, external: true } : undefined;
    });
  },
};

/** A module that reads what is beside it still reads that. */
const knowsItsPlace: Plugin = {
  name: "knows-its-place",
  setup(builder) {
    builder.onLoad({ filter: /\/(?:cli|embedded|protocol|runner)\/[^.]*\.ts$/ }, ({ path }) => {
      const source = readFileSync(path, "utf8");
      if (!source.includes("import.meta.")) return undefined;
      const folder = JSON.stringify(join(path, ".."));
      return { contents: source.replaceAll("import.meta.dirname", folder), loader: "ts" };
    });
  },
};
