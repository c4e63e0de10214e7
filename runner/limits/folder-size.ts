import { lstatSync, type Stats } from "node:fs";
import { opendir } from "node:fs/promises";
import { childPath, permitted, type RawPath } from "../pfs/raw-path.ts";

/** What lies in a folder, in bytes. */
export interface FolderSize {
  /** What it takes of the disk. The holes of a file take nothing. */
  readonly taken: number;
  /** The sizes of its files, holes included. */
  readonly apparent: number;
}

// The unit of stat(2), whatever the file system's own blocks are.
const BLOCK_BYTES = 512;
// Bounds the memory for folders that are still to be looked into; those beyond are left out.
const MAX_FOLDERS_HELD = 100_000;

export interface SizeOptions {
  /** Stops early once more bytes than these are found. */
  readonly enough: number;
  /** "running": a command may be writing there; "ended": none is, and folders that it closed are opened. */
  readonly command: "running" | "ended";
  /** Stops it early as well. */
  readonly signal: AbortSignal;
}

/**
 * Adds up a folder that a command wrote: no link is followed and nothing is opened but folders. What goes away
 * meanwhile, can't be looked at, or lies deeper than a path can say does not count.
 */
export async function folderSize(
  folder: RawPath,
  { enough, command, signal }: SizeOptions,
): Promise<FolderSize> {
  const folders: RawPath[] = [folder];
  let taken = 0;
  let apparent = 0;
  for (let next = folders.pop(); next && taken <= enough && !signal.aborted; next = folders.pop()) {
    for await (const { path, stats } of entriesOf(next, command)) {
      taken += stats.blocks * BLOCK_BYTES;
      if (stats.isFile()) apparent += stats.size;
      if (stats.isDirectory() && folders.length < MAX_FOLDERS_HELD) folders.push(path);
      if (taken > enough || signal.aborted) break;
    }
  }
  return { taken, apparent };
}

async function* entriesOf(
  folder: RawPath,
  command: SizeOptions["command"],
): AsyncGenerator<{ path: Buffer; stats: Stats }> {
  // Read in pieces, so that other work goes on meanwhile.
  const opened = () => opendir(folder, { encoding: "latin1", bufferSize: 256 });
  try {
    const entries = command === "ended" ? permitted({ path: folder, mode: 0o700 }, opened) : opened();
    for await (const { name } of await entries) {
      const path = childPath(folder, name);
      const stats = look(path);
      if (stats) yield { path, stats };
    }
  } catch {
    // The folder is gone, or closed to us.
  }
}

// Synchronous: some microseconds, a tenth of what it takes to ask a thread.
function look(path: Buffer): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
