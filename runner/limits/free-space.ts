import { lstatSync, type Stats } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { reserveOf, type Space, sizeText } from "../lib/sizes.ts";
import { childPath, permitted, type RawPath } from "../pfs/raw-path.ts";

/** A datum whose command runs. */
export interface RunningDatum {
  /** Its `/pfs/out` on this machine. */
  readonly out: string;
  /** Ends the command; the reason is for the people who read its job. */
  readonly stop: (reason: string) => void;
}

export interface FreeSpaceOptions {
  readonly node: string;
  /** Asks for the file system of the node's data folder. */
  readonly look: () => Promise<Space>;
}

const LOOK_EVERY_MS = 1000;
/** A stopped datum frees its bytes once its folder is gone. If it is not gone after so many looks, the next datum is stopped. */
const MAX_LOOKS_FOR_REMOVAL = 20;

/**
 * A datum that holds less than this did not fill the disk: others did, and it may end. So a disk that is nearly full
 * for other reasons fails no small datums.
 */
function blamedFrom(reserveBytes: number): number {
  return reserveBytes / 16;
}

/**
 * Keeps the node's disk from filling up: while commands run it looks each second at what is free, and below the
 * reserve it stops the one that has the most in `/pfs/out`. The others go on.
 */
export class FreeSpace {
  readonly #options: FreeSpaceOptions;
  readonly #running = new Set<RunningDatum>();
  #timer: NodeJS.Timeout | undefined;
  #stopped: { readonly out: string; looks: number } | undefined;

  constructor(options: FreeSpaceOptions) {
    this.#options = options;
  }

  /** To be called when a command starts. The returned function is to be called when it has ended. */
  enter(datum: RunningDatum): () => void {
    this.#running.add(datum);
    this.#arm();
    return () => this.#running.delete(datum);
  }

  /** What is free, if that is less than the reserve. */
  async shortage(): Promise<Space | undefined> {
    const space = await this.#options.look().catch(() => undefined);
    return space && space.freeBytes < reserveOf(space.totalBytes) ? space : undefined;
  }

  #arm(): void {
    if (this.#timer || this.#running.size === 0) return;
    this.#timer = setTimeout(() => void this.#look(), LOOK_EVERY_MS).unref();
  }

  async #look(): Promise<void> {
    try {
      const space = await this.#options.look();
      const reserve = reserveOf(space.totalBytes);
      if (space.freeBytes < reserve && !(await this.#isFreeing())) await this.#stopLargest(space, reserve);
    } catch {
      // The next look tells.
    }
    this.#timer = undefined;
    this.#arm();
  }

  /** Whether a stopped datum has yet to free what it held. */
  async #isFreeing(): Promise<boolean> {
    const stopped = this.#stopped;
    if (!stopped) return false;
    stopped.looks += 1;
    const there = await lstat(stopped.out).then(
      () => true,
      () => false,
    );
    if (there && stopped.looks < MAX_LOOKS_FOR_REMOVAL) return true;
    this.#stopped = undefined;
    return false;
  }

  async #stopLargest({ freeBytes }: Space, reserve: number): Promise<void> {
    const largest = await this.#largest();
    if (!largest || largest.taken < blamedFrom(reserve) || !this.#running.has(largest.datum)) return;
    const { datum, taken } = largest;
    this.#stopped = { out: datum.out, looks: 0 };
    datum.stop(
      `the disk of node ${this.#options.node} is nearly full (${sizeText(freeBytes)} are free), and of the ` +
        `commands that ran there this one had the most in /pfs/out, ${sizeText(taken)}`,
    );
  }

  async #largest(): Promise<{ datum: RunningDatum; taken: number } | undefined> {
    const all = { enough: Number.POSITIVE_INFINITY, signal: new AbortController().signal };
    let largest: { datum: RunningDatum; taken: number } | undefined;
    for (const datum of [...this.#running]) {
      const { taken } = await folderSize(datum.out, { ...all, command: "running" });
      if (!largest || taken > largest.taken) largest = { datum, taken };
    }
    return largest;
  }
}

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
