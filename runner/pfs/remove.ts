import { opendir, rename, rmdir, unlink } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { forEachLimited } from "../lib/concurrency.ts";
import { errorCode } from "../lib/fault.ts";
import { orNothing } from "../lib/system-calls.ts";
import { childPath, permitted, type RawPath } from "./raw-path.ts";

// A killed command's last processes may still be ending, and writing, while its folder goes.
const MAX_TRIES = 20;
const TRY_AGAIN_MS = 25;

/** Removes a folder of ours and everything in it, whatever its names, modes and depth, following no link. Does nothing if it is gone. */
export async function removeTree(folder: RawPath): Promise<void> {
  for (let left = MAX_TRIES; ; left -= 1) {
    try {
      return await new Removal(folder).run();
    } catch (error) {
      if (left === 0 || errorCode(error) !== "ENOTEMPTY") throw error;
      await delay(TRY_AGAIN_MS);
    }
  }
}

// The kernel takes paths of 4,095 bytes; a command that steps down as it goes makes deeper ones.
const DEEP_BYTES = 3000;
/** Entries of one folder that are known and not yet gone, at most. */
const ENTRIES_AT_ONCE = 1000;
const CALLS_AT_ONCE = 8;

/** Has one folder open at a time, however deep it goes. */
class Removal {
  readonly #top: RawPath;
  /** Folders that lay too deep, moved to the top. */
  readonly #moved: Buffer[] = [];
  #moves = 0;

  constructor(top: RawPath) {
    this.#top = top;
  }

  async run(): Promise<void> {
    await this.#remove(this.#top);
    for (let folder = this.#moved.pop(); folder; folder = this.#moved.pop()) await this.#remove(folder);
    await orNothing(rmdir(this.#top));
  }

  /** Removes a folder with all in it; of the top only what is in it, since deep folders are moved there. */
  async #remove(folder: RawPath): Promise<void> {
    let entries: Entry[];
    do {
      entries = await entriesOf(folder);
      const full: Buffer[] = [];
      const work = async (entry: Entry) => {
        if (!(await isRemoved(entry, folder))) full.push(entry.path);
      };
      await forEachLimited(entries, { limit: CALLS_AT_ONCE, work });
      for (const inner of full) await this.#removeFull(inner, folder);
    } while (entries.length === ENTRIES_AT_ONCE);
    if (folder !== this.#top) await orNothing(rmdir(folder));
  }

  async #removeFull(folder: Buffer, parent: RawPath): Promise<void> {
    if (folder.length <= DEEP_BYTES) return this.#remove(folder);
    const to = childPath(this.#top, `.deep-${this.#moves++}`);
    // The folder itself must be writable too: its ".." changes.
    const moving = () => permitted({ path: folder, mode: 0o700 }, () => rename(folder, to));
    await orNothing(permitted({ path: parent, mode: 0o700 }, moving));
    this.#moved.push(to);
  }
}

interface Entry {
  readonly path: Buffer;
  readonly kind: "folder" | "other";
}

/** Some of what is in a folder; all of it, if that is less than ENTRIES_AT_ONCE. */
async function entriesOf(folder: RawPath): Promise<Entry[]> {
  const entries: Entry[] = [];
  const opened = () => opendir(folder, { encoding: "latin1", bufferSize: 256 });
  const listing = await orNothing(permitted({ path: folder, mode: 0o700 }, opened));
  if (!listing) return entries;
  for await (const entry of listing) {
    entries.push({ path: childPath(folder, entry.name), kind: entry.isDirectory() ? "folder" : "other" });
    if (entries.length === ENTRIES_AT_ONCE) break;
  }
  return entries;
}

// File systems say one of the last two of a folder that is not empty.
const FULL_FOLDER = ["EISDIR", "ENOTEMPTY", "EEXIST"];

/**
 * Removes it, unless it is a folder with something in it. One may also be among the others: not every file system
 * tells kinds in its listings. No link can be meant: it would be gone then.
 */
async function isRemoved({ path, kind }: Entry, folder: RawPath): Promise<boolean> {
  try {
    const removing = () => (kind === "folder" ? rmdir(path) : unlink(path));
    await orNothing(permitted({ path: folder, mode: 0o700 }, removing));
    return true;
  } catch (error) {
    if (!FULL_FOLDER.includes(errorCode(error) ?? "")) throw error;
    return false;
  }
}
