import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { EngineKind } from "../runner/executors/container/engine/engine.ts";
import { makeBaseRoot } from "./image/base-root.ts";
import { fetchDebianPackages } from "./image/debian-packages.ts";
import {
  type Architecture,
  type Distribution,
  ownArchitecture,
  readDistribution,
} from "./image/distribution.ts";
import { enginesHere, load } from "./image/engines.ts";
import {
  filesOf,
  isNode,
  isWorkerd,
  type LockedPackage,
  lockedPackages,
  packageFolder,
} from "./image/node-packages.ts";
import { type Image, type Layer, OciLayout } from "./image/oci-layout.ts";
import { ImageError } from "./image/run-tool.ts";
import { walk } from "./image/walk.ts";
import { buildProgram } from "./package/program.ts";

/**
 * `npm run image`: makes the image of gateway, runner and command line without pulling one. Its root file system is of this
 * machine's Debian or Ubuntu packages, its Node, workerd and packages are those of the lockfile. It is written as an OCI layout, and
 * loaded into the engines that answer here. No step needs root.
 */

const ROOT = join(import.meta.dirname, "..");
const CACHE = join(ROOT, "node_modules/.cache/sluice/image");
const USAGE = `npm run image [-- <option>...]

  --arch amd64|arm64|both   what it is to run on; this machine's
  --name <name>             what it is called; sluice
  --out <folder>            where the OCI layout goes; build/image. A layout that is there is replaced
  --engine docker|podman|none
                            the engine that it is loaded into, or none; may be repeated. All that answer here`;

const {
  name: program,
  version,
  description,
  license,
} = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

async function main(): Promise<void> {
  const options = readOptions();
  if (options === undefined) return;
  const { archs, own, name, out, kinds } = options;
  const distribution = readDistribution(readFileSync("/etc/os-release", "utf8"));
  const layout = new OciLayout(out);
  const stage = mkdtempSync(join(out, "stage-"));
  try {
    await makeProgram(join(stage, "program"));
    const images: Image[] = [];
    for (const arch of archs) images.push(await makeImage({ arch, own, distribution, layout, stage }));
    layout.finish(images, version);
    const names = [`${name}:${version}`, `${name}:latest`];
    for (const image of images) tell(image);
    console.log(`layout   ${out}`);
    const mine = images.find(({ arch }) => arch === own);
    const engines = mine ? await enginesHere(kinds) : [];
    for (const engine of engines) {
      if (mine) await load(engine, { layout, image: mine, names });
      console.log(`${engine.kind.padEnd(8)} ${names.join(", ")} at ${engine.socket}`);
    }
    if (engines.length === 0)
      console.log("engine   none has it: `podman load` and `skopeo copy` read the layout");
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

function readOptions() {
  const own = ownArchitecture(process.arch);
  const given = readArguments();
  if (given.help) return void console.log(USAGE);
  const {
    arch = own,
    name = program,
    out = join(ROOT, "build/image"),
    engine = ["docker", "podman"],
  } = given;
  const archs: Architecture[] =
    arch === "both" ? ["amd64", "arm64"] : [isArchitecture(arch) ? arch : misuse(`--arch ${arch}`)];
  // A colon may only be that of a registry's port: the tags are the version and `latest`.
  if (!/^[a-z0-9][a-z0-9._/:-]*$/.test(name) || /:[^/]*$/.test(name)) misuse(`--name ${name}`);
  const kinds = engine.flatMap((kind): EngineKind[] => {
    if (kind === "none") return [];
    return kind === "docker" || kind === "podman" ? [kind] : misuse(`--engine ${kind}`);
  });
  return { archs, own, name, out: resolve(out), kinds };
}

const OPTIONS = {
  arch: { type: "string" },
  name: { type: "string" },
  out: { type: "string" },
  engine: { type: "string", multiple: true },
  help: { type: "boolean" },
} as const;

function readArguments() {
  try {
    return parseArgs({ options: OPTIONS }).values;
  } catch (error) {
    return misuse(error instanceof Error ? error.message : String(error));
  }
}

function misuse(what: string): never {
  throw new ImageError(`${what} can't be used\n\n${USAGE}`);
}

function isArchitecture(arch: string): arch is Architecture {
  return arch === "amd64" || arch === "arm64";
}

interface Making {
  readonly arch: Architecture;
  readonly own: Architecture;
  readonly distribution: Distribution;
  readonly layout: OciLayout;
  /** Has the program in `program`. */
  readonly stage: string;
}

/** What changes least comes first: an update then costs what it changes. */
async function makeImage({ arch, own, distribution, layout, stage }: Making): Promise<Image> {
  const packages = lockedPackages(arch);
  const layers: Layer[] = [];
  const warn = (message: string) => console.error(`warning: ${message}`);
  const debs = await fetchDebianPackages({ arch, own, distribution, cache: CACHE, warn });
  const root = join(stage, arch);
  await makeBaseRoot(root, { debs, distribution });
  const base = { from: root, paths: walk(root), about: `packages of ${distribution.title}` };
  layers.push(await layout.addLayer({ ...base, to: ".", modes: "kept" }));
  for (const [is, title, to] of [
    [isNode, "Node", () => "opt/node"],
    [isWorkerd, "workerd", (path: string) => `opt/sluice/${path}`],
  ] as const) {
    const one = packages.find(is);
    const folder = one && (await packageFolder(one, { cache: CACHE }));
    if (!folder) throw new ImageError(`package-lock.json has no ${title} for ${arch}`);
    const paths = filesOf(folder).filter((path) => !/^(include|share)(\/|$)/.test(path));
    layers.push(
      await layout.addLayer({
        from: folder,
        paths,
        to: to(one.path),
        modes: "settled",
        about: `${title} ${one.version}`,
      }),
    );
  }
  const others = packages.filter((one) => !isNode(one) && !isWorkerd(one));
  layers.push(await packagesLayer(others, layout));
  const program = join(stage, "program");
  layers.push(
    await layout.addLayer({
      from: program,
      paths: walk(program),
      ...{ to: ".", modes: "settled" },
      about: `Sluice ${version}`,
    }),
  );
  return layout.addImage({ arch, layers, created: createdAt(), config: configOf() });
}

/** All of them are below the repository's `node_modules`: only Node and workerd are another machine's. */
async function packagesLayer(packages: readonly LockedPackage[], layout: OciLayout): Promise<Layer> {
  const paths = new Set<string>();
  for (const one of packages) {
    const folder = await packageFolder(one, { cache: CACHE });
    if (folder === undefined) continue;
    for (let parent = one.path; parent !== "."; parent = dirname(parent)) paths.add(parent);
    for (const path of filesOf(folder)) paths.add(join(one.path, path));
  }
  const about = `${packages.length} packages of package-lock.json`;
  return layout.addLayer({ from: ROOT, paths: [...paths], to: "opt/sluice", modes: "settled", about });
}

/** The program as the image has it, which is as npm would install it. */
async function makeProgram(root: string): Promise<void> {
  const home = join(root, "opt/sluice");
  await buildProgram(join(home, "dist"));
  for (const one of ["bin", "schema", "package.json", "LICENSE"]) {
    cpSync(join(ROOT, one), join(home, one), { recursive: true });
  }
  mkdirSync(join(root, "usr/local/bin"), { recursive: true });
  symlinkSync("/opt/sluice/bin/sluice.js", join(root, "usr/local/bin/sluice"));
}

const SECOND_NS = 1_000_000_000;

/** How it runs. What the OCI has no word for is the engines' own: the health check. */
function configOf(): object {
  return {
    Env: ["PATH=/usr/local/bin:/opt/node/bin:/usr/bin:/bin", "NODE_ENV=production"],
    // tini hands signals on, and takes in the processes that commands leave behind.
    Entrypoint: ["tini", "--", "sluice"],
    Cmd: ["dev", "--host", "0.0.0.0", "--data", "/srv/sluice", "--wait-for-engine"],
    WorkingDir: "/work",
    ExposedPorts: { "8787/tcp": {} },
    StopSignal: "SIGTERM",
    Labels: {
      "org.opencontainers.image.title": program,
      "org.opencontainers.image.description": description,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": license,
      ...revision(),
    },
    Healthcheck: {
      Test: ["CMD", "sluice-healthcheck"],
      Interval: 5 * SECOND_NS,
      Timeout: 10 * SECOND_NS,
      StartPeriod: 60 * SECOND_NS,
      StartInterval: SECOND_NS,
      Retries: 3,
    },
  };
}

function revision(): Record<string, string> {
  const commit = gitSays("rev-parse", "HEAD");
  return commit === undefined ? {} : { "org.opencontainers.image.revision": commit };
}

/** `SOURCE_DATE_EPOCH`, else the time of the commit: the same sources are the same image. */
function createdAt(): string {
  const seconds = Number(process.env.SOURCE_DATE_EPOCH || gitSays("log", "-1", "--format=%ct") || 0);
  return new Date(seconds * 1000).toISOString();
}

function gitSays(...args: string[]): string | undefined {
  try {
    return execFileSync("git", ["-C", ROOT, ...args], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return undefined;
  }
}

function tell({ arch, layers }: Image): void {
  const size = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`.padStart(7);
  console.log(`image    linux/${arch}, ${size(layers.reduce((sum, layer) => sum + layer.size, 0)).trim()}`);
  for (const layer of layers) console.log(`${size(layer.size)}  ${layer.about}`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof ImageError)) throw error;
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
