import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Architecture, Distribution } from "./distribution.ts";
import { ImageError, runTool } from "./run-tool.ts";

/** What the image is made of beside Node, workerd and Sluice; what these need comes along. */
const WANTED = ["libc6", "libstdc++6", "busybox", "bubblewrap", "tini"];
/** What only their installation scripts need, which nobody runs here: of certificates, the files are enough. */
const ALONE = ["ca-certificates"];

export interface DebianOptions {
  readonly arch: Architecture;
  /** This machine's. */
  readonly own: Architecture;
  readonly distribution: Distribution;
  /** A folder that is kept from time to time, so that nothing is fetched twice. */
  readonly cache: string;
  readonly warn: (message: string) => void;
}

/**
 * Fetches the packages of the image from where this machine has its own, checked by apt against the distribution's signatures.
 * Nothing on this machine is changed: apt works in a folder of its own, in which nothing is installed. Returns the `.deb` files.
 */
export async function fetchDebianPackages(options: DebianOptions): Promise<string[]> {
  const folder = join(options.cache, `apt-${options.arch}`);
  const archives = join(folder, "archives");
  for (const made of ["lists/partial", "archives/partial"])
    mkdirSync(join(folder, made), { recursive: true });
  writeFileSync(join(folder, "status"), "");
  const settings = [
    ...["Debug::NoLocking=1", "APT::Sandbox::User=root", "APT::Install-Recommends=0"],
    ...[`Dir::State::status=${join(folder, "status")}`, `Dir::Cache::archives=${archives}`],
    ...[`Dir::Cache::pkgcache=${join(folder, "pkgcache.bin")}`, `Dir::Cache::srcpkgcache=`],
    ...(options.arch === options.own ? [] : await foreignSettings(folder, options)),
  ];
  const apt = (...args: string[]) =>
    runTool("apt-get", ["-q", "-y", ...settings.flatMap((setting) => ["-o", setting]), ...args], {
      cwd: archives,
    });
  if (options.arch !== options.own) await update(() => apt("update"), folder, options);
  const plan = async (...names: string[]) => planned(await apt("install", "--simulate", ...names));
  const alone = (await plan(...ALONE)).filter(({ name }) => ALONE.includes(name));
  const packages = [...(await plan(...WANTED)), ...alone];
  const files = packages.map(({ file }) => file);
  // What was fetched for a release of before would only take up room.
  for (const file of readdirSync(archives)) {
    if (file.endsWith(".deb") && !files.includes(file)) rmSync(join(archives, file));
  }
  const missing = packages.filter(({ file }) => !existsSync(join(archives, file)));
  if (missing.length > 0) await apt("download", ...missing.map(({ name, version }) => `${name}=${version}`));
  return files.sort().map((file) => join(archives, file));
}

interface Package {
  readonly name: string;
  readonly version: string;
  /** As apt calls what it fetches. */
  readonly file: string;
}

/** What an installation would install. Lines are like `Inst libc6 (2.36-9 Debian:12/stable [amd64])`. */
function planned(simulation: string): Package[] {
  const lines = simulation.matchAll(/^Inst (\S+) \((\S+) .*\[(\w+)\]\)/gm);
  return [...lines].map(([, name = "", version = "", arch = ""]) => ({
    ...{ name: name.replace(/:.*$/, ""), version },
    file: `${name.replace(/:.*$/, "")}_${version.replaceAll(":", "%3a")}_${arch}.deb`,
  }));
}

/** This machine's lists know only its own architecture. */
async function foreignSettings(folder: string, { arch, distribution }: DebianOptions): Promise<string[]> {
  const sources = join(folder, "sources.list");
  writeFileSync(sources, `${(await sourcesFor(arch, distribution)).join("\n")}\n`);
  return [
    ...[
      `APT::Architecture=${arch}`,
      `APT::Architectures::=${arch}`,
      `Dir::State::lists=${join(folder, "lists")}`,
    ],
    ...[`Dir::Etc::sourcelist=${sources}`, "Dir::Etc::sourceparts=-", "Acquire::Languages=none"],
    "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
  ];
}

const UBUNTU_PORTS = "http://ports.ubuntu.com/ubuntu-ports";
const UBUNTU_ARCHIVE = "http://archive.ubuntu.com/ubuntu";

/** The places of this machine's own packages, for another architecture. */
async function sourcesFor(
  arch: Architecture,
  { id, codename }: Pick<Distribution, "id" | "codename">,
): Promise<string[]> {
  const keyring = `/usr/share/keyrings/${id}-archive-keyring.gpg`;
  const signed = existsSync(keyring) ? ` [signed-by=${keyring}]` : "";
  if (id === "ubuntu") {
    // Ubuntu has its architectures at two places.
    const site = arch === "amd64" ? UBUNTU_ARCHIVE : UBUNTU_PORTS;
    return ["", "-updates", "-security"].map(
      (part) => `deb${signed} ${site} ${codename}${part} main universe`,
    );
  }
  const format = "$(CREATED_BY) $(ORIGIN) $(SITE) $(RELEASE) $(COMPONENT)";
  const targets = await runTool("apt-get", ["indextargets", "--format", format]);
  const places = [...targets.matchAll(/^Packages Debian (\S+) (\S+) main$/gm)].map(
    ([, site, release]) => `deb${signed} ${site} ${release} main`,
  );
  if (places.length > 0) return [...new Set(places)];
  throw new ImageError("apt has no lists of Debian's packages yet: run apt-get update as root");
}

/** Without a network, the lists of the last time will do. */
async function update(
  run: () => Promise<unknown>,
  folder: string,
  { arch, warn }: DebianOptions,
): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!readdirSync(join(folder, "lists")).some((file) => file.endsWith("_Packages"))) {
      throw new ImageError(`the packages for ${arch} can't be listed, which takes a network: ${error}`);
    }
    warn(`the packages for ${arch} are those that were known the last time: ${error}`);
  }
}
