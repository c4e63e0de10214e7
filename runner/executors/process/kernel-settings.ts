import { readdir, readFile } from "node:fs/promises";
import { isThere } from "../../lib/system-calls.ts";
import { unescaped } from "../../limits/cgroup-tree.ts";
import { isWithin } from "./hidden.ts";

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
