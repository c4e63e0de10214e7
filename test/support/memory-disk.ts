import { statfsSync } from "node:fs";

/** A file system in memory that Linux has. */
const FOLDER = "/dev/shm";
/** Several times what the objects of all worker tests take together, so that others have room as well; bytes. */
const ROOM_BYTES = 8 * 1024 ** 3;

/**
 * A folder in memory with room for the objects of the worker tests, or undefined. They write thousands of small databases,
 * and wait for the disk about a third of their time. What they look at is the same: their crashes are those of a process.
 */
export function memoryDisk(): string | undefined {
  try {
    const { bavail, bsize } = statfsSync(FOLDER);
    return bavail * bsize >= ROOM_BYTES ? FOLDER : undefined;
  } catch {
    return undefined;
  }
}
