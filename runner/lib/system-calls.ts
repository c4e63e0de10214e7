import { constants } from "node:fs";
import { access, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "./fault.ts";

/** Returns undefined if the file or folder is not there. */
export async function orNothing<T>(action: Promise<T>): Promise<T | undefined> {
  try {
    return await action;
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
    return undefined;
  }
}

/** Whether a path leads somewhere that this process can reach: with `mode`, in that way. */
export function isThere(path: string, mode?: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

/** Kills a process, or the group of one if its id is negative. Does nothing if it has ended, or belongs to another user. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!["ESRCH", "EPERM"].includes(errorCode(error) ?? "")) throw error;
  }
}

/** Writes all of the bytes at a place in the file. */
export async function writeAt(
  file: FileHandle,
  { bytes, position }: { bytes: Uint8Array; position: number },
): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    const { bytesWritten } = await file.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}

// Folders of administrators' tools, which an ordinary user's PATH may lack.
const SYSTEM_FOLDERS = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/** The absolute path of a program, or undefined if this machine lacks it. */
export async function findTool(name: string): Promise<string | undefined> {
  const folders = (process.env.PATH ?? "").split(":").filter((folder) => folder.startsWith("/"));
  for (const folder of [...folders, ...SYSTEM_FOLDERS]) {
    const path = join(folder, name);
    if (await isThere(path, constants.X_OK)) return path;
  }
  return undefined;
}

/** A word of a shell script that stands for this text. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether a path is a folder or below it. Both are absolute, without `.`, `..` and a slash at the end. */
export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`);
}
