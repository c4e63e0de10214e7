import { resolve } from "node:path";
import type { Limits } from "./limits.ts";

/** What a control group can bound, as the kernel names it. */
export type Controller = "memory" | "cpu" | "pids";

/** A hierarchy of control groups, as this process sees it. */
export interface CgroupTree {
  readonly version: 1 | 2;
  /** Its mount points; the first one is used. */
  readonly points: readonly string[];
  /** The folder of the group that this process is in. */
  readonly own: string;
  /** What it controls, if of version 1. For version 2 a file in the folder says it. */
  readonly controllers: readonly string[];
}

export interface CgroupTexts {
  /** `/proc/self/cgroup` */
  readonly cgroup: string;
  /** `/proc/self/mountinfo` */
  readonly mountinfo: string;
}

/** The hierarchies that are mounted here and hold this process: see cgroups(7) and proc(5). */
export function cgroupTrees({ cgroup, mountinfo }: CgroupTexts): CgroupTree[] {
  const mounts = mountinfo.split("\n").flatMap(mountOf);
  return cgroup.split("\n").flatMap((line) => treeOf(line, mounts));
}

interface Mount {
  readonly version: 1 | 2;
  /** The folder of the hierarchy that is shown there. */
  readonly root: string;
  readonly point: string;
  readonly options: readonly string[];
}

function mountOf(line: string): Mount[] {
  const [before = "", behind = ""] = line.split(" - ");
  const [, , , root = "", point = ""] = before.split(" ").map(unescaped);
  const [type, , options = ""] = behind.split(" ");
  if (type !== "cgroup" && type !== "cgroup2") return [];
  return [{ version: type === "cgroup" ? 1 : 2, root, point, options: options.split(",") }];
}

/** A path as proc(5) writes it: spaces and such stand there as `\040`. */
export function unescaped(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

/** A line is `<id>:<controllers>:<path>`; version 2 is the one of no controllers. */
function treeOf(line: string, mounts: readonly Mount[]): CgroupTree[] {
  const [, names = "", path = ""] = /^[0-9]+:([^:]*):(.*)$/.exec(line) ?? [];
  if (path === "") return [];
  const version = names === "" ? 2 : 1;
  const controllers = names.split(",").filter((name) => name !== "");
  const shown = mounts.filter(
    (mount) => mount.version === version && controllers.every((name) => mount.options.includes(name)),
  );
  const [mount] = shown;
  const own = mount && ownFolder(path, mount);
  return own === undefined ? [] : [{ version, points: shown.map(({ point }) => point), own, controllers }];
}

/** Returns undefined if the mount does not show it. */
function ownFolder(path: string, { root, point }: Mount): string | undefined {
  if (path.split("/").includes("..")) return undefined;
  const prefix = root === "/" ? "" : root;
  return path === root || path.startsWith(`${prefix}/`)
    ? resolve(point, `.${path.slice(prefix.length)}`)
    : undefined;
}

/** What is written into a file of a control group. */
export interface Setting {
  readonly file: string;
  readonly value: string;
  /** "optional": not every kernel has the file. */
  readonly need: "required" | "optional";
}

/** The flag that needs a controller. */
export const FLAG_OF: Readonly<Record<Controller, string>> = {
  memory: "--memory",
  cpu: "--cpus",
  pids: "--pids",
};

/** The controllers that the limits need. */
export function controllersFor({ memoryBytes, cpus, pids }: Limits): Controller[] {
  return [
    ...(memoryBytes === undefined ? [] : ["memory" as const]),
    ...(cpus === undefined ? [] : ["cpu" as const]),
    ...(pids === undefined ? [] : ["pids" as const]),
  ];
}

// The kernel's own default: a group that has used its share waits for at most this long.
const CPU_PERIOD_MICROS = 100_000;

/** What a new group of this version is set to. How many processes it may hold is set when the first one is there. */
export function settingsFor(version: 1 | 2, { memoryBytes, cpus }: Limits): Setting[] {
  return [
    ...(memoryBytes === undefined ? [] : MEMORY[version](String(memoryBytes))),
    ...(cpus === undefined ? [] : CPU[version](String(Math.round(cpus * CPU_PERIOD_MICROS)))),
  ];
}

type SettingsOf = Readonly<Record<1 | 2, (value: string) => Setting[]>>;

// Swap is no way around the limit.
const MEMORY: SettingsOf = {
  1: (bytes) => [
    { file: "memory.limit_in_bytes", value: bytes, need: "required" },
    { file: "memory.memsw.limit_in_bytes", value: bytes, need: "optional" },
  ],
  2: (bytes) => [
    { file: "memory.max", value: bytes, need: "required" },
    { file: "memory.swap.max", value: "0", need: "optional" },
  ],
};

const CPU: SettingsOf = {
  1: (micros) => [
    { file: "cpu.cfs_period_us", value: String(CPU_PERIOD_MICROS), need: "required" },
    { file: "cpu.cfs_quota_us", value: micros, need: "required" },
  ],
  2: (micros) => [{ file: "cpu.max", value: `${micros} ${CPU_PERIOD_MICROS}`, need: "required" }],
};

/** The file that counts processes killed for want of memory. */
export const OOM_FILE: Readonly<Record<1 | 2, string>> = { 1: "memory.oom_control", 2: "memory.events" };

/** The count in that file. */
export function oomKillsIn(text: string): number {
  return Number(/^oom_kill ([0-9]+)$/m.exec(text)?.[1] ?? 0);
}
