import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { buildProgram } from "./package/program.ts";

/**
 * `npm run image`: makes a folder of what the image of gateway, runner and command line is made of, and has the engines that
 * answer here build deploy/image/Containerfile in it. Node, workerd and packages are those of the lockfile.
 */

const ROOT = join(import.meta.dirname, "..");
/** What npm calls an architecture, by what engines call it. */
const CPUS = { amd64: "x64", arm64: "arm64" } as const;
type Architecture = keyof typeof CPUS;
const ENGINES = ["docker", "podman"];
const USAGE = `npm run image [-- <option>...] [-- <option of the engine's build>...]

  --arch amd64|arm64|both   what the folder has the program for; this machine's, and that one is built
  --name <name>             what it is called; sluice
  --base <image>            what it is built on, of Debian or one that has bubblewrap, BusyBox, tini and certificates
  --out <folder>            where the folder is; build/image. One of before is replaced
  --engine docker|podman|none
                            what builds it, or none; may be repeated. All that answer here`;

interface Locked {
  readonly version: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly cpu?: string | readonly string[];
}

const manifest = readJson(join(ROOT, "package.json"));
const lock: { packages: Record<string, Locked> } = readJson(join(ROOT, "package-lock.json"));

function readJson(file: string) {
  return JSON.parse(readFileSync(file, "utf8"));
}

/** Something that the person who makes the image can mend. The message says how. */
class ImageError extends Error {}

async function main(): Promise<void> {
  const options = readOptions();
  if (options === undefined) return;
  const { own, archs, out, name, more } = options;
  const engines = enginesHere(options.engines);
  await makeFolder(out, archs);
  console.log(`folder   ${out}, for ${archs.join(" and ")}`);
  const tags = [`${name}:${manifest.version}`, `${name}:latest`];
  for (const engine of archs.includes(own) ? engines : []) {
    // The OCI's format has no health check.
    const format = engine === "podman" ? ["--format", "docker"] : [];
    const args = [`--build-arg=TARGETARCH=${own}`, ...tags.map((tag) => `--tag=${tag}`), ...format, ...more];
    run(engine, ["build", "-f", join(out, "Containerfile"), ...args, out]);
    const bytes = execFileSync(engine, ["image", "inspect", "--format", "{{.Size}}", `${name}:latest`]);
    console.log(`${engine.padEnd(8)} ${tags.join(", ")}: ${(Number(bytes) / 1e6).toFixed(0)} MB`);
  }
}

function readOptions() {
  const { values, positionals } = readArguments();
  if (values.help) return void console.log(USAGE);
  const own = ({ x64: "amd64", arm64: "arm64" } as const)[process.arch as string];
  if (own === undefined)
    throw new ImageError(`there are images for amd64 and arm64, and this machine is ${process.arch}`);
  const { arch = own, name = manifest.name, base, out = join(ROOT, "build/image"), engine } = values;
  const archs = arch === "both" ? ["amd64", "arm64"] : [arch];
  if (!archs.every(isArchitecture)) misuse(`--arch ${arch}`);
  // A colon may only be that of a registry's port: the tags are the version and `latest`.
  if (!/^[a-z0-9][a-z0-9._/:-]*$/.test(name) || /:[^/]*$/.test(name)) misuse(`--name ${name}`);
  const unknown = engine?.find((one) => one !== "none" && !ENGINES.includes(one));
  if (unknown !== undefined) misuse(`--engine ${unknown}`);
  const more = [...(base === undefined ? [] : [`--build-arg=BASE=${base}`]), ...positionals];
  return { own, archs: archs.filter(isArchitecture), name, out: resolve(out), engines: engine, more };
}

function readArguments() {
  try {
    return parseArgs({
      options: {
        arch: { type: "string" },
        name: { type: "string" },
        base: { type: "string" },
        out: { type: "string" },
        engine: { type: "string", multiple: true },
        help: { type: "boolean" },
      },
      allowPositionals: true,
    });
  } catch (error) {
    return misuse(error instanceof Error ? error.message : String(error));
  }
}

function misuse(what: string): never {
  throw new ImageError(`${what} can't be used\n\n${USAGE}`);
}

function isArchitecture(arch: string): arch is Architecture {
  return arch in CPUS;
}

/** Those that were named, or all that answer. Throws an ImageError if one does not that was named, or if none does. */
function enginesHere(named: readonly string[] | undefined): string[] {
  const wanted = (named ?? ENGINES).filter((engine) => engine !== "none");
  const silent = wanted.flatMap((engine) => {
    const { status, error, stderr } = spawnSync(engine, ["ps", "-q"], { encoding: "utf8" });
    if (status === 0) return [];
    return [{ engine, why: error ? "it is not installed" : stderr.trim().split("\n").at(-1) }];
  });
  const here = wanted.filter((one) => !silent.some(({ engine }) => engine === one));
  if (silent.length > 0 && (named || here.length === 0)) {
    const tried = silent.map(({ engine, why }) => `${engine} (${why})`).join(" nor ");
    throw new ImageError(
      `there is no answer from ${tried}: start it, or take --engine none for the folder alone, which any builder of images takes`,
    );
  }
  return here;
}

/** What deploy/image/Containerfile copies. Throws an ImageError if the folder holds anything else. */
async function makeFolder(out: string, archs: readonly Architecture[]): Promise<void> {
  if (existsSync(out) && readdirSync(out).length > 0 && !existsSync(join(out, "Containerfile"))) {
    throw new ImageError(
      `${out} holds something else than an image's parts: name another folder, or an empty one`,
    );
  }
  rmSync(out, { recursive: true, force: true });
  cpSync(join(ROOT, "deploy/image"), out, { recursive: true });
  appendFileSync(join(out, "Containerfile"), labels());
  for (const arch of archs) placePrograms(join(out, arch), arch);
  copyPackages(out);
  const home = join(out, "sluice");
  await buildProgram(join(home, "dist"));
  for (const one of ["bin", "schema", "package.json", "LICENSE"]) {
    cpSync(join(ROOT, one), join(home, one), { recursive: true });
  }
  // Anybody may read them and root alone may change them, whatever this machine's umask is.
  run("chmod", ["-R", "u+rwX,go+rX,go-w", out]);
}

/** Node and workerd for an architecture, as they are installed here or else from npm, held to the lockfile's digests. */
function placePrograms(folder: string, arch: Architecture): void {
  const wanted = Object.entries(lock.packages).filter(
    ([path, { cpu }]) => /\/(node|workerd)-linux-/.test(path) && cpu?.includes(CPUS[arch]),
  );
  const installed = wanted.every(([path, { version }]) => isInstalled(path, version));
  const root = installed ? ROOT : join(folder, "fetched");
  if (!installed) fetchPackages(root, arch, wanted);
  for (const [path] of wanted) {
    const name = basename(path);
    cpSync(join(root, path), join(folder, name.startsWith("node") ? "node" : `workerd/${name}`), {
      recursive: true,
    });
  }
  rmSync(join(folder, "fetched"), { recursive: true, force: true });
}

/** A lockfile of these packages alone, installed. */
function fetchPackages(
  folder: string,
  arch: Architecture,
  wanted: readonly (readonly [string, Locked])[],
): void {
  const versions = wanted.map(([path, { version }]) => [path.replace("node_modules/", ""), version]);
  const root = { name: "programs", dependencies: Object.fromEntries(versions) };
  const packages = { "": root, ...Object.fromEntries(wanted) };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify(root));
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify({ ...root, lockfileVersion: 3, packages }));
  const target = ["--force", "--os=linux", `--cpu=${CPUS[arch]}`, "--libc=glibc"];
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"];
  run("npm", ["ci", ...target, ...quiet], folder);
}

/** What else the program needs of the lockfile, as `npm ci` has installed it here: it is the same for all architectures. */
function copyPackages(out: string): void {
  for (const [path, { version, dev, optional }] of Object.entries(lock.packages)) {
    if (path === "" || dev || optional) continue;
    if (!isInstalled(path, version))
      throw new ImageError(`${path} is not what package-lock.json says: run npm ci`);
    // Packages inside it are packages of their own.
    const filter = (from: string) => basename(from) !== "node_modules";
    cpSync(join(ROOT, path), join(out, path), { recursive: true, filter });
  }
}

function isInstalled(path: string, version: string): boolean {
  const file = join(ROOT, path, "package.json");
  return existsSync(file) && readJson(file).version === version;
}

function labels(): string {
  const { name, version, description, license } = manifest;
  const { stdout: revision } = spawnSync("git", ["-C", ROOT, "rev-parse", "HEAD"], { encoding: "utf8" });
  const told = { title: name, version, description, licenses: license, revision: revision?.trim() };
  return Object.entries(told)
    .filter(([, value]) => value)
    .map(([label, value]) => `LABEL org.opencontainers.image.${label}=${JSON.stringify(value)}\n`)
    .join("");
}

/** Runs a program, which tells its progress itself. Throws an ImageError if it fails. */
function run(program: string, args: readonly string[], cwd = ROOT): void {
  const { status, error } = spawnSync(program, args, { cwd, stdio: "inherit" });
  if (status !== 0) throw new ImageError(`${program} ${args[0]} failed${error ? `: ${error.message}` : ""}`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof ImageError)) throw error;
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
