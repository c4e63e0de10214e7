import {
  createReadStream,
  createWriteStream,
  type Dirent,
  existsSync,
  mkdtempSync,
  rmSync,
  type Stats,
} from "node:fs";
import { lstat, opendir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import type { ContentId } from "../../protocol/content.ts";
import { LEAF_BYTES } from "../../protocol/digest.ts";
import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import type { Range } from "../../runner/lib/in-parts.ts";
import { contentIdOf, hashPieces, TreeHash } from "../../runner/lib/tree-hash.ts";
import { directoryPrefix } from "../gateway/objects.ts";
import { CliError, errnoOf, UsageError } from "../output/failure.ts";
import { atEnd } from "../stop-requests.ts";

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

interface WalkOptions {
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
async function* walkFolder(folder: string, options: WalkOptions): AsyncGenerator<LocalEntry> {
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

/** The identity of bytes that are at hand. */
export function hashBytes(bytes: Uint8Array): ContentId {
  if (bytes.length <= LEAF_BYTES) return contentIdOf(bytes);
  const hash = new TreeHash();
  hash.update(bytes);
  return hash.finish();
}

/** The identity of a file's bytes, or of a run of them. */
export function hashFile(
  file: string,
  { onBytes, range }: { onBytes?: (bytes: number) => void; range?: Range } = {},
): Promise<ContentId> {
  const bounds = range && { start: range.offset, end: range.offset + range.length - 1 };
  return hashPieces(createReadStream(file, { ...bounds, highWaterMark: LEAF_BYTES }), onBytes);
}

/** As many entries as are put, or deleted, in one go. */
export interface EntryPage<E = LocalEntry> {
  readonly entries: readonly E[];
  /** No page comes after it. */
  readonly isLast: boolean;
}

/**
 * Entries in pages, each of at most `maxEntries`, and of `maxBytes` but for a single entry that is larger. Reads one entry
 * ahead and no more: the next entry tells whether the page has ended.
 */
export async function* inPages<E extends { readonly size: number }>(
  entries: AsyncIterable<E> | Iterable<E>,
  { maxEntries = MAX_COMMIT_OPERATIONS, maxBytes = Number.POSITIVE_INFINITY } = {},
): AsyncGenerator<EntryPage<E>> {
  let page: E[] = [];
  let bytes = 0;
  for await (const entry of entries) {
    if (page.length === maxEntries || (page.length > 0 && bytes + entry.size > maxBytes)) {
      yield { entries: page, isLast: false };
      page = [];
      bytes = 0;
    }
    page.push(entry);
    bytes += entry.size;
  }
  if (page.length > 0) yield { entries: page, isLast: true };
}

export interface LocalSources {
  /** Paths of this machine. */
  readonly sources: readonly string[];
  /** Path in the bucket. */
  readonly to: string;
  readonly recursive: boolean;
  readonly skipSpecial: boolean;
}

/** What is to be put. Throws for a source that is not there before anything is read. */
export async function localEntries(asked: LocalSources): Promise<AsyncIterable<LocalEntry>> {
  const { sources, to, recursive } = asked;
  const several = sources.length > 1;
  if (several) checkFolder(to, sources);
  const found: { from: string; stats: Stats }[] = [];
  for (const from of sources) {
    const stats = await localStats(from);
    if (stats.isDirectory() && !recursive) throw new UsageError(`${from} is a folder: copy it with -r`);
    if (!stats.isDirectory() && !stats.isFile()) {
      throw new CliError(`${from} is neither a file nor a folder: '-' stands for what comes on stdin`);
    }
    if (stats.isFile() && recursive && !several) {
      throw new UsageError(`${from} is a file: copy it without -r`);
    }
    found.push({ from, stats });
  }
  return entriesOf(found, { ...asked, several });
}

async function* entriesOf(
  found: readonly { from: string; stats: Stats }[],
  { to, several, skipSpecial }: LocalSources & { several: boolean },
): AsyncGenerator<LocalEntry> {
  for (const { from, stats } of found) {
    // Also of `.`, which has no name of its own.
    const name = basename(resolve(from));
    if (stats.isDirectory()) {
      const into = several ? `${to}${name}/` : directoryPrefix(to);
      yield* walkFolder(from, { into, skipSpecial });
    } else {
      const target = to === "" || to.endsWith("/") ? to + name : to;
      checkTarget(from, target);
      yield { source: from, target, size: stats.size };
    }
  }
}

/** Several sources go to a folder, each by its own name. */
function checkFolder(to: string, sources: readonly string[]): void {
  if (to !== "" && !to.endsWith("/")) {
    throw new UsageError(`several sources go to a folder: end the path '${to}' in /`);
  }
  const names = new Map<string, string>();
  for (const source of sources) {
    const name = basename(resolve(source));
    const other = names.get(name);
    if (other !== undefined) throw new UsageError(`${other} and ${source} would both become '${to}${name}'`);
    names.set(name, source);
  }
}

export async function localStats(path: string): Promise<Stats> {
  try {
    return await stat(path);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
    throw new CliError(`${path} does not exist`, { code: "ENOENT" });
  }
}

/**
 * What comes on stdin, as a file: its size and digest are told before its bytes are sent, and it may be longer than memory.
 * The file is removed when the command ends.
 */
export async function stdinFile(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-stdin-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "stdin");
  await pipeline(process.stdin, createWriteStream(file, { mode: 0o600 }));
  return file;
}
