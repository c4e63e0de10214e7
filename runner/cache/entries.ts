import { constants } from "node:fs";
import { chmod, copyFile, link, mkdir, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type ContentId, parseContentName } from "../../protocol/content.ts";
import { errorCode } from "../lib/fault.ts";
import { orNothing } from "../lib/system-calls.ts";

/** A file of the cache. */
export interface Entry {
  readonly path: string;
  readonly content: ContentId;
  /** What it takes of the disk, in bytes. */
  readonly bytes: number;
  /** In milliseconds since 1970. */
  readonly usedAt: number;
  /** A running datum has it, too: removing it here would free nothing. */
  readonly inUse: boolean;
}

/** Folders that the cache is divided into, by the first byte of the digest. */
export const SHARDS: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, "0"),
);

const BLOCK_BYTES = 4096;

/** What a file of that size takes of the disk. */
export function bytesOnDisk(size: number): number {
  return Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
}

const STATS_AT_ONCE = 32;

/** The entries of one folder of the cache, in no order, without those that go meanwhile. */
export async function* entriesOf(dir: string, shard: string): AsyncGenerator<Entry> {
  const folder = join(dir, shard);
  const names = await orNothing(readdir(folder));
  for (let start = 0; names && start < names.length; start += STATS_AT_ONCE) {
    const some = names.slice(start, start + STATS_AT_ONCE);
    const found = await Promise.all(some.map((name) => entryAt(join(folder, name), name)));
    yield* found.filter((entry) => entry !== undefined);
  }
}

/** Every entry. */
export async function* allEntries(dir: string): AsyncGenerator<Entry> {
  for (const shard of SHARDS) yield* entriesOf(dir, shard);
}

async function entryAt(path: string, name: string): Promise<Entry | undefined> {
  const content = parseContentName(name);
  const stats = content && (await orNothing(stat(path)));
  if (!stats) return undefined;
  const { size, atimeMs, nlink } = stats;
  return { path, content, bytes: bytesOnDisk(size), usedAt: atimeMs, inUse: nlink > 1 };
}

// Hard links are refused across file systems, beyond a file's link count, and by some file systems altogether.
const NO_LINK = new Set(["EXDEV", "EMLINK", "EPERM", "ENOTSUP"]);

/** Gives a file a second name or, if that is refused, makes a copy. Returns the path that has the times of the original. */
export async function linkOrCopy(from: string, to: string): Promise<string> {
  try {
    await link(from, to);
    return to;
  } catch (error) {
    if (!NO_LINK.has(errorCode(error) ?? "")) throw error;
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await chmod(to, 0o444);
    return from;
  }
}

/** Like linkOrCopy, and makes the folder if it is missing. */
export async function linkInto(from: string, to: string): Promise<string> {
  const timed = await orNothing(linkOrCopy(from, to));
  if (timed !== undefined) return timed;
  await mkdir(dirname(to), { recursive: true });
  return linkOrCopy(from, to);
}
