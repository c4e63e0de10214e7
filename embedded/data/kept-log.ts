import {
  appendFileSync,
  closeSync,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";

/**
 * The newest lines of a gateway's log, which its data folder keeps for `sluice support`: a night later nobody may have the
 * terminal that showed them. Two files, the older one of which goes when the newer one is full.
 */

/** Most bytes of one of the two files. */
const FILE_BYTES = 1024 * 1024;
/** Most bytes that are read of both. */
const READ_BYTES = 512 * 1024;

function keptLogFile(dataDir: string): string {
  return join(dataDir, "gateway.log");
}

/** What takes the lines of a log, each with its end. What can't be kept, such as on a full disk, is passed over. */
export interface KeptLog {
  write(line: string): void;
}

/** Keeps lines in a data folder, from when that is there. Only its owner may read them. */
export function openKeptLog(dataDir: string): KeptLog {
  const file = keptLogFile(dataDir);
  return {
    write(line) {
      try {
        const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
        if (size > 0 && size + line.length > FILE_BYTES) renameSync(file, olderFile(dataDir));
        appendFileSync(file, line, { mode: 0o600 });
      } catch {
        // The log is on stderr, too. What it tells of must not fail for it.
      }
    },
  };
}

/** The newest lines, oldest first; none if there is no log. A line that is cut at the beginning is left out. */
export function readKeptLog(dataDir: string): string[] {
  const newer = tailOf(keptLogFile(dataDir), READ_BYTES);
  const older = tailOf(olderFile(dataDir), READ_BYTES - newer.length);
  return [...linesOf(older), ...linesOf(newer)];
}

/** Forgets them: lines may name what was erased. */
export function removeKeptLog(dataDir: string): void {
  for (const file of [keptLogFile(dataDir), olderFile(dataDir)]) rmSync(file, { force: true });
}

function olderFile(dataDir: string): string {
  return `${keptLogFile(dataDir)}.1`;
}

function tailOf(file: string, bytes: number): Buffer {
  let fd: number;
  try {
    fd = openSync(file, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return Buffer.alloc(0);
    throw error;
  }
  try {
    const { size } = fstatSync(fd);
    const wanted = Math.max(0, Math.min(size, bytes));
    const tail = Buffer.alloc(wanted);
    const read = readSync(fd, tail, 0, wanted, size - wanted);
    const got = tail.subarray(0, read);
    return wanted === size ? got : got.subarray(got.indexOf("\n") + 1);
  } finally {
    closeSync(fd);
  }
}

function linesOf(bytes: Buffer): string[] {
  return bytes
    .toString()
    .split("\n")
    .filter((line) => line !== "");
}
