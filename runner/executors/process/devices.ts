import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../lib/fault.ts";
import { isWithin } from "./hidden.ts";

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
export interface Devices {
  readonly folders: readonly string[];
  readonly files: readonly string[];
}

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
