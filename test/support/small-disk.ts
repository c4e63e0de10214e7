import { test } from "vitest";
import { findTool } from "../../runner/lib/system-calls.ts";
import { mustRun } from "./processes.ts";

const [mount, umount] = [await findTool("mount"), await findTool("umount")];

/** Whether this process may mount a disk, which root may alone. */
export const canMount = process.getuid?.() === 0 && mount !== undefined && umount !== undefined;

/** A test that mounts a disk; skipped where that can't be. */
export const needsMount = test.skipIf(!canMount);

/** Mounts a disk of so many MiB in a folder. */
export async function mountDisk(folder: string, { mib }: { mib: number }): Promise<void> {
  await mustRun([mount ?? "mount", "-t", "tmpfs", "-o", `size=${mib}m`, "tmpfs", folder]);
}

/** Takes such a disk away, with all that is on it. */
export async function unmountDisk(folder: string): Promise<void> {
  await mustRun([umount ?? "umount", folder]);
}
