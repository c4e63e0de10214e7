import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** What has to be done so that a file is there after a power cut: its bytes are flushed, and then the folder that has its name. */

/** Makes what a file has, or which names a folder has, outlast a crash of the machine. */
export function flush(path: string): void {
  const opened = openSync(path, "r");
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}

interface KeptText {
  readonly text: string;
  /** Absent: the usual one. */
  readonly mode?: number;
}

/** Keeps a text. A crash of the machine leaves the file whole, as it was before, or not at all. */
export function keepFile(file: string, { text, mode }: KeptText): void {
  const draft = `${file}.${process.pid}`;
  try {
    writeFileSync(draft, text, { ...(mode !== undefined && { mode }), flush: true });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  flush(dirname(file));
}

/** Makes a folder, and those above it that are not there. */
export function keepFolder(path: string, mode: number): void {
  const first = mkdirSync(path, { recursive: true, mode });
  // One that a killed process made may be unflushed, too.
  let above = dirname(path);
  flushNames(above);
  if (first === undefined) return;
  while (above !== dirname(first)) {
    above = dirname(above);
    flushNames(above);
  }
}

/** What a user gets who may not list a folder, and what some file systems say to a flush of any folder. */
const CANNOT_FLUSH = new Set(["EACCES", "EPERM", "EINVAL", "ENOTSUP"]);

/** Flushes a folder that may be another user's, which then is left to the system. */
function flushNames(folder: string): void {
  try {
    flush(folder);
  } catch (error) {
    if (!CANNOT_FLUSH.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}
