import type { Controller } from "./cgroup-tree.ts";
import type { Limits } from "./limits.ts";

/** What is written into a file of a control group. */
export interface Setting {
  readonly file: string;
  readonly value: string;
  /** "optional": not every kernel has the file. */
  readonly need: "required" | "optional";
}

const FLAGS: Readonly<Record<Controller, string>> = { memory: "--memory", cpu: "--cpus", pids: "--pids" };

/** The controllers that the limits need. */
export function controllersFor({ memoryBytes, cpus, pids }: Limits): Controller[] {
  return [
    ...(memoryBytes === undefined ? [] : ["memory" as const]),
    ...(cpus === undefined ? [] : ["cpu" as const]),
    ...(pids === undefined ? [] : ["pids" as const]),
  ];
}

/** The flag that needs a controller. */
export function flagOf(controller: Controller): string {
  return FLAGS[controller];
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
