import {
  appendFileSync,
  closeSync,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from "node:fs";
import { join } from "node:path";

/**
 * The newest lines of a gateway's log, which its data folder keeps for `sluice support`: a night later nobody may have the
 * terminal that showed them. Two files, the older one of which goes when the newer one is full.
 */

/** Most bytes of one of the two files. */
const FILE_BYTES = 1024 * 1024;
/** Most bytes of a line with its end. */
const LINE_BYTES = 64 * 1024;
/** So many bytes are kept of one that is longer: as a text in JSON they may be twice as many. */
const KEPT_BYTES = 30 * 1024;
/** Most bytes that are read of both. */
const READ_BYTES = 512 * 1024;

function keptLogFile(dataDir: string): string {
  return join(dataDir, "gateway.log");
}

/** What takes the lines of a log, each with its end. What can't be kept, such as on a full disk, is passed over. */
export interface KeptLog {
  write(line: string): void;
}

/**
 * Keeps lines in a data folder, from when that is there. Only its owner may read them. Of a line of more than 64 KiB its beginning is
 * kept, as the field `cut` of JSON. `append` is the means to fail as a full disk does.
 */
export function openKeptLog(
  dataDir: string,
  { append = appendFileSync }: { readonly append?: typeof appendFileSync } = {},
): KeptLog {
  const file = keptLogFile(dataDir);
  let isTorn = false;
  return {
    write(line) {
      // Bytes that stay if not all of the line can be written.
      let before: number | undefined;
      try {
        const text = `${isTorn ? "\n" : ""}${fitting(line)}`;
        const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
        const isFull = size > 0 && size + Buffer.byteLength(text) > FILE_BYTES;
        if (isFull) renameSync(file, olderFile(dataDir));
        before = isFull ? 0 : size;
        append(file, text, { mode: 0o600 });
        isTorn = false;
      } catch {
        // The log is on stderr, too. What it tells of must not fail for it.
        if (before !== undefined && !cutBack(file, before)) isTorn = true;
      }
    },
  };
}

function fitting(line: string): string {
  const bytes = Buffer.from(line);
  if (bytes.length <= LINE_BYTES) return line;
  return `${JSON.stringify({ cut: bytes.toString("utf8", 0, KEPT_BYTES) })}\n`;
}

/** Takes back what was written of a line of which not all could be. Whether that went well. */
function cutBack(file: string, size: number): boolean {
  try {
    truncateSync(file, size);
    return true;
  } catch {
    return false;
  }
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
