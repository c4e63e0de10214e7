import { type Dirent, existsSync } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";
import type { ContentId } from "../../protocol/content.ts";
import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import { CliError } from "../output/failure.ts";

/** A file or an empty directory that is to be put. */
export interface LocalEntry {
  /** Its path on this machine, or its bytes. */
  readonly source: string | Buffer;
  /** Its path in the branch; a directory's ends in `/`. */
  readonly target: string;
  readonly size: number;
  /** Identity of its bytes, if that is known beforehand. */
  readonly content?: ContentId;
}

export interface WalkOptions {
  /** Path in the branch: "" or ending in `/`. */
  readonly into: string;
  /** Leave out what is neither a file nor a folder, instead of refusing. */
  readonly skipSpecial: boolean;
}

/** Names of a folder that are read at a time. */
const NAMES_AT_A_TIME = 1000;

/**
 * Everything under a folder, in no order: a folder of a million names is never held as a whole. Does not follow
 * symbolic links. Throws a CliError that names what can't be stored.
 */
export async function* walkFolder(folder: string, options: WalkOptions): AsyncGenerator<LocalEntry> {
  let kept = 0;
  for await (const entry of await opendir(folder, { bufferSize: NAMES_AT_A_TIME })) {
    if (!isPlain(entry) && options.skipSpecial) continue;
    kept++;
    yield* walkEntry(entry, join(folder, entry.name), options);
  }
  if (kept === 0 && options.into !== "") yield { source: folder, target: options.into, size: 0 };
}

async function* walkEntry(entry: Dirent, source: string, options: WalkOptions): AsyncGenerator<LocalEntry> {
  if (!isPlain(entry)) {
    throw new CliError(
      `${source} is ${describe(entry)}, which a branch can't hold: remove it, or leave such out with --skip-special`,
    );
  }
  const target = `${options.into}${entry.name}`;
  checkTarget(source, target);
  if (entry.isDirectory()) yield* walkFolder(source, { ...options, into: `${target}/` });
  else yield { source, target, size: (await lstat(source)).size };
}

/** Throws a CliError if the tree can't hold a path of that name. */
export function checkTarget(source: string, target: string): void {
  // What is not UTF-8 in a name is read as this character, by which nothing is found.
  if (source.includes("\ufffd") && !existsSync(source)) {
    throw new CliError(`${source} can't be stored: its name is not UTF-8, so rename it`);
  }
  const fault = pathFault(target);
  if (fault) throw new CliError(`${source} can't be stored as '${target}': ${PATH_FAULT_TEXT[fault]}`);
}

/** Whether a branch can hold it. */
export function isPlain(entry: Dirent): boolean {
  return entry.isFile() || entry.isDirectory();
}

/** What an entry is that a branch can not hold. */
export function describe(entry: Dirent): string {
  if (entry.isSymbolicLink()) return "a symbolic link";
  if (entry.isFIFO()) return "a named pipe";
  if (entry.isSocket()) return "a socket";
  return "a device";
}

/** As many entries as are put, or deleted, in one go. */
export interface EntryPage<E = LocalEntry> {
  readonly entries: readonly E[];
  /** No page comes after it. */
  readonly isLast: boolean;
}

/**
 * Entries in pages, each of at most MAX_COMMIT_OPERATIONS entries, and of `maxBytes` but for a single entry that is
 * larger. Reads one entry ahead and no more: the next entry tells whether the page has ended.
 */
export async function* inPages<E extends { readonly size: number }>(
  entries: AsyncIterable<E>,
  { maxBytes = Number.POSITIVE_INFINITY }: { readonly maxBytes?: number } = {},
): AsyncGenerator<EntryPage<E>> {
  let page: E[] = [];
  let bytes = 0;
  for await (const entry of entries) {
    if (page.length === MAX_COMMIT_OPERATIONS || (page.length > 0 && bytes + entry.size > maxBytes)) {
      yield { entries: page, isLast: false };
      page = [];
      bytes = 0;
    }
    page.push(entry);
    bytes += entry.size;
  }
  if (page.length > 0) yield { entries: page, isLast: true };
}
