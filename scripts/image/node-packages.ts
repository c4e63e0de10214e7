import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { z } from "zod";
import { type Architecture, NPM_ARCH } from "./distribution.ts";
import { ImageError, runTool } from "./run-tool.ts";
import { walk } from "./walk.ts";

const ROOT = join(import.meta.dirname, "../..");

const Names = z.union([z.string(), z.array(z.string())]).transform((names) => [names].flat());
const Locked = z.object({
  version: z.string(),
  integrity: z.string().optional(),
  dev: z.boolean().default(false),
  optional: z.boolean().default(false),
  os: Names.optional(),
  cpu: Names.optional(),
  libc: Names.optional(),
});
const Lock = z.object({ packages: z.record(z.string(), z.looseObject({})) });

/** A package that the lockfile names. */
export interface LockedPackage extends z.infer<typeof Locked> {
  /** Such as `node_modules/zod`. */
  readonly path: string;
  readonly name: string;
}

/** The package of Node itself, and that of workerd. */
export const isNode = ({ name }: LockedPackage) => name.startsWith("node-linux-");
export const isWorkerd = ({ name }: LockedPackage) => name.startsWith("@cloudflare/workerd-");

/** Bundlers and resizers of images, which the packages bring along and the program does not load. */
const UNUSED = /^(esbuild|@esbuild\/.*|sharp|@img\/.*)$/;

/** What the program needs of the lockfile to run on an architecture of Linux. */
export function lockedPackages(arch: Architecture): LockedPackage[] {
  const { packages } = Lock.parse(JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")));
  const here = { os: "linux", cpu: NPM_ARCH[arch], libc: "glibc" } as const;
  return Object.entries(packages).flatMap(([path, entry]) => {
    if (path === "") return [];
    const locked = Locked.parse(entry);
    const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    const fits = (["os", "cpu", "libc"] as const).every(
      (field) => locked[field]?.includes(here[field]) ?? true,
    );
    return locked.dev || !fits || UNUSED.test(name) ? [] : [{ ...locked, path, name }];
  });
}

/** A folder that has the package: the one that `npm ci` made, or for another machine's, one in the cache. */
export async function packageFolder(
  wanted: LockedPackage,
  { cache }: { readonly cache: string },
): Promise<string | undefined> {
  const installed = join(ROOT, wanted.path);
  if (versionIn(installed) === wanted.version) return installed;
  if (wanted.cpu) return fetched(wanted, cache);
  // What npm leaves out if it can't be had here, the program does without.
  if (wanted.optional) return undefined;
  throw new ImageError(`${wanted.path} is not what package-lock.json says: run npm ci`);
}

function versionIn(folder: string): string | undefined {
  const file = join(folder, "package.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).version : undefined;
}

/** From the registry, and only what the lockfile has the digest of. */
async function fetched({ name, version, integrity }: LockedPackage, cache: string): Promise<string> {
  const folder = join(cache, `${name.replace("/", "-")}-${version}`);
  if (versionIn(folder) === version) return folder;
  const incoming = `${folder}.incoming`;
  rmSync(incoming, { recursive: true, force: true });
  mkdirSync(incoming, { recursive: true });
  const pack = ["pack", `${name}@${version}`, "--prefer-offline", "--json", "--loglevel=error"];
  const said = await runTool("npm", [...pack, "--pack-destination", incoming], { cwd: incoming });
  const [{ filename }] = z.tuple([z.object({ filename: z.string() })]).parse(JSON.parse(said));
  const tarball = join(incoming, basename(filename));
  const digest = `sha512-${createHash("sha512").update(readFileSync(tarball)).digest("base64")}`;
  if (digest !== integrity) throw new ImageError(`${name}@${version} is not what package-lock.json says`);
  await runTool("tar", ["-xzf", tarball, "-C", incoming, "--strip-components=1"]);
  rmSync(tarball);
  rmSync(folder, { recursive: true, force: true });
  renameSync(incoming, folder);
  return folder;
}

/** What of a package is run or is its licence, below its folder. Packages inside it are packages of their own. */
export function filesOf(folder: string): string[] {
  return walk(folder, ({ name }) => name !== "node_modules" && !isUnread(name));
}

/** Types, maps to sources, sources and programs of other runtimes, and documentation that is no licence. */
function isUnread(name: string): boolean {
  if (/licen[cs]e|notice|copying|copyright|authors|patents/i.test(name)) return false;
  return /\.(map|md|markdown|flow|tsbuildinfo|bare|h|c|cc)$|\.d\.[cm]?ts$/i.test(name);
}
