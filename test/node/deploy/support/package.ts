import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { ROOT } from "../../../support/dev-server.ts";
import { mustRun } from "../../../support/processes.ts";

/** The tests' processes inherit no more than this: npm finds its cache and settings by the home folder. */
const NPM_ENV = { HOME: process.env.HOME ?? "/root" };

/**
 * What npm of this machine is set to (registry, certificates), for a process with another home. PATH is without the programs of
 * the repository: its Node has a prefix of its own, by which npm would miss the settings of the machine, and tries a registry
 * whose certificate it does not know again and again without a word.
 */
export function npmElsewhere(home: string): Record<string, string> {
  const own = join(NPM_ENV.HOME, ".npmrc");
  const inherited = Object.entries(process.env).flatMap(([name, value = ""]) =>
    /^(npm_config_(registry|cafile|noproxy|(https?_)?proxy)|NODE_EXTRA_CA_CERTS|(https?|no)_proxy)$/i.test(
      name,
    )
      ? [[name, value]]
      : [],
  );
  return {
    ...Object.fromEntries(inherited),
    HOME: home,
    PATH: (process.env.PATH ?? "")
      .split(":")
      .filter((folder) => !folder.includes("node_modules"))
      .join(":"),
    ...(existsSync(own) && { npm_config_userconfig: own }),
    npm_config_prefer_offline: "true",
    npm_config_update_notifier: "false",
    npm_config_loglevel: "error",
  };
}

const Packed = z.tuple([
  z.object({ filename: z.string(), files: z.array(z.object({ path: z.string(), mode: z.int() })) }),
]);

export interface Tarball {
  readonly name: string;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

/** `npm pack` of the repository, into a folder. */
export async function pack(folder: string): Promise<Tarball> {
  const command = ["npm", "pack", "--json", "--foreground-scripts=false", "--pack-destination", folder];
  const [{ filename, files }] = Packed.parse(JSON.parse(await mustRun(command, { cwd: ROOT, env: NPM_ENV })));
  return { name: filename, files };
}

const Dependencies = z.record(z.string(), z.string()).default({});
/** The parts of a lock that matter here; the others stay as they are. */
const Lock = z.looseObject({
  packages: z.record(z.string(), z.looseObject({ dev: z.boolean().optional() })),
});
const Manifest = z.looseObject({
  version: z.string(),
  dependencies: Dependencies,
  optionalDependencies: Dependencies,
});

/**
 * Installs a tarball into an empty project in its folder. The versions are those of the repository's lock, which npm
 * has in its cache: what is tested must not change by itself, and needs no network.
 */
export async function installTarball(folder: string, tarball: Tarball): Promise<void> {
  const source = `file:${tarball.name}`;
  const manifest = Manifest.parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));
  const lock = Lock.parse(JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")));
  const needed = Object.entries(lock.packages).filter(([path, { dev }]) => path !== "" && !dev);
  const project = { name: "node", private: true, dependencies: { sluice: source } };
  const packages = {
    "": project,
    "node_modules/sluice": { ...manifest, resolved: source, devDependencies: undefined },
    ...Object.fromEntries(needed),
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(project));
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify({ ...lock, name: "node", packages }));
  // No package needs its install scripts.
  const flags = ["--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"];
  await mustRun(["npm", "ci", ...flags], { cwd: folder, env: NPM_ENV });
}
