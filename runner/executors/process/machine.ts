import { lstat, readdir, readFile, readlink, realpath, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { errorCode } from "../../lib/fault.ts";
import { isThere, isWithin } from "../../lib/system-calls.ts";
import { unescaped } from "../../limits/cgroups.ts";

/*
 * The machine around a command, as it is now: what of it commands see, what they do not see, and what they may not change.
 */

/** The names in a folder, by kind, so that another folder can show its entries one by one. */
export interface FolderEntries {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  readonly links: readonly { readonly name: string; readonly target: string }[];
}

// Every command gets its own of these.
const OWN = new Set(["dev", "pfs", "proc"]);

/** What is in the machine's `/`, to be rebuilt around a private `/pfs` and `/dev`. */
export function readRootEntries(): Promise<FolderEntries> {
  return readEntries("/", OWN);
}

export async function readEntries(folder: string, except: ReadonlySet<string>): Promise<FolderEntries> {
  const folders: string[] = [];
  const files: string[] = [];
  const links: { name: string; target: string }[] = [];
  for (const name of await readdir(folder)) {
    if (except.has(name)) continue;
    const path = join(folder, name);
    const stat = await lstat(path);
    if (stat.isSymbolicLink()) links.push({ name, target: await readlink(path) });
    else (stat.isDirectory() ? folders : files).push(name);
  }
  return { folders, files, links };
}

/** What of the machine commands do not see, as it is now: paths without links, none of them below another. */
export type HiddenPaths = Omit<FolderEntries, "links">;

export interface HidingTerms {
  /** The node's data folder. */
  readonly dataDir: string;
  /** What the operator or the caller wants hidden besides. */
  readonly hidden?: readonly string[] | undefined;
  /** The source of secrets, as in RunnerConfig. */
  readonly secrets?: string | undefined;
}

/** Where machines keep keys: service accounts, Docker's and Podman's secrets, the runner's own (docs/runners.md). */
const USUAL = ["/var/run/secrets", "/run/secrets", "/etc/sluice"];

/** Every path that is to be hidden, there or not: the node's data, where secrets are read, the usual places of keys. */
export function pathsToHide(
  { dataDir, hidden = [], secrets }: HidingTerms,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  return [dataDir, ...hidden, ...USUAL, ...placesOfSecrets(secrets, env)].map((path) => resolve(path));
}

function placesOfSecrets(
  secrets: string | undefined,
  { KUBECONFIG = "" }: Readonly<Record<string, string | undefined>>,
): string[] {
  if (secrets === undefined) return [];
  if (!/^kubernetes(:|$)/.test(secrets)) return [secrets];
  return [join(homedir(), ".kube"), ...KUBECONFIG.split(delimiter).filter((path) => path !== "")];
}

// The command is the agent's user: it can't reach what the agent can't.
const OUT_OF_REACH = new Set(["ENOENT", "ENOTDIR", "EACCES", "ELOOP"]);

/**
 * Where those paths lead now. It is asked before each command, because folders come and go while an agent lives. A path
 * that leads nowhere needs no hiding, and must not be mounted over: that would make it on the machine.
 */
export async function findHidden(paths: readonly string[]): Promise<HiddenPaths> {
  const found = new Map<string, "folder" | "file">();
  for (const path of paths) {
    try {
      const real = await realpath(path);
      found.set(real, (await stat(real)).isDirectory() ? "folder" : "file");
    } catch (error) {
      if (!OUT_OF_REACH.has(errorCode(error) ?? "")) throw error;
    }
  }
  const outermost = [...found].filter(
    ([path]) => ![...found.keys()].some((other) => other !== path && isWithin(path, other)),
  );
  const ofKind = (wanted: string) => outermost.filter(([, kind]) => kind === wanted).map(([path]) => path);
  return { folders: ofKind("folder"), files: ofKind("file") };
}

/*
 * Commands have a `/dev` of their own. The machine's would give a command of root its raw disks and its memory, past
 * every file's owner, and the terminals of whoever works there. Beside it, no device that lies elsewhere opens
 * (`nodev`), and no command makes one: it has no capability for that.
 */

/** Every command has these of the machine's. */
export const USUAL_DEVICES: readonly string[] = ["full", "null", "random", "tty", "urandom", "zero"];

/** Links in `/dev` that programs count on. `ptmx` makes terminals in a `/dev/pts` that each command has alone. */
export const DEVICE_LINKS: readonly { readonly name: string; readonly target: string }[] = [
  { name: "core", target: "/proc/kcore" },
  { name: "fd", target: "/proc/self/fd" },
  { name: "ptmx", target: "pts/ptmx" },
  { name: "stderr", target: "/proc/self/fd/2" },
  { name: "stdin", target: "/proc/self/fd/0" },
  { name: "stdout", target: "/proc/self/fd/1" },
];

/** What commands compute with: NVIDIA's (with folders of their own), the kernel's for all cards, AMD's. */
const GPU = /^(nvidia.*|dri|kfd)$/;

/** What of the machine's `/dev` commands see besides, as it is now: names in it. */
export type Devices = Omit<FolderEntries, "links">;

export interface DeviceTerms {
  /** Names that the operator has asked for. */
  readonly wanted: readonly string[];
  /** Paths without links that commands do not see. */
  readonly hidden: readonly string[];
  /** The machine's devices; another folder in tests. */
  readonly folder?: string;
}

/**
 * Finds the GPUs of the machine and what was asked for. It is asked before each command, because the driver makes its
 * devices when they are first used. Block devices are never among them, whatever their name.
 */
export async function findDevices({ wanted, hidden, folder = "/dev" }: DeviceTerms): Promise<Devices> {
  const folders: string[] = [];
  const files: string[] = [];
  for (const name of (await readdir(folder)).sort()) {
    const path = join(folder, name);
    if (!GPU.test(name) && !wanted.includes(name)) continue;
    if (hidden.some((other) => isWithin(path, other))) continue;
    const kind = await kindOf(path);
    if (kind === "folder") folders.push(name);
    if (kind === "device") files.push(name);
  }
  return { folders, files };
}

async function kindOf(path: string): Promise<"folder" | "device" | "other"> {
  try {
    const stat = await lstat(path);
    if (stat.isDirectory()) return "folder";
    return stat.isCharacterDevice() ? "device" : "other";
  } catch (error) {
    // It went away meanwhile.
    if (errorCode(error) === "ENOENT") return "other";
    throw error;
  }
}

/**
 * Entries of `/proc` that are the machine's, not a process's. Files in them are root's to write, without any
 * capability: `sys/kernel/core_pattern` names a program that the kernel then starts outside of every sandbox. They
 * are what container engines mask or make read-only, and more of the kind.
 */
const SETTINGS = new Set([
  "acpi",
  "asound",
  "bus",
  "driver",
  "dynamic_debug",
  "fs",
  "irq",
  "latency_stats",
  "mtrr",
  "scsi",
  "sys",
  "sysrq-trigger",
]);

/** Those of them that this kernel has, as paths. Commands may read them and not write. */
export async function kernelSettings(): Promise<string[]> {
  const names = await readdir("/proc");
  return names.filter((name) => SETTINGS.has(name)).map((name) => `/proc/${name}`);
}

/** A mount of this machine. */
export interface Mount {
  readonly path: string;
  /** Those of its flags, as mount(8) takes them, that a new mount of it must keep in a user namespace. */
  readonly flags: readonly string[];
}

const KEPT_FLAGS = new Set(["nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "nosymfollow"]);

/** The mounts at a folder and below it that the agent can reach, outer ones first. */
export async function mountsIn(folder: string): Promise<Mount[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").slice(0, -1);
  const mounts = new Map<string, Mount>();
  for (const line of lines) {
    const [, , , , point = "", options = ""] = line.split(" ");
    const path = unescaped(point);
    const flags = options.split(",").filter((flag) => KEPT_FLAGS.has(flag));
    // Of several at one place, the last one is seen.
    if (isWithin(path, folder)) mounts.set(path, { path, flags });
  }
  const reachable = await Promise.all(
    [...mounts.values()].map(async (mount) => ((await isThere(mount.path)) ? [mount] : [])),
  );
  return reachable.flat().sort((a, b) => a.path.length - b.path.length);
}
