import { lstat, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Readable } from "node:stream";
import type { SaidOfCommit } from "../../../protocol/annotations.ts";
import { type ViewAddress, viewBucket } from "../../../protocol/names.ts";
import { forEachLimited } from "../../../runner/lib/concurrency.ts";
import { type Address, showAddress } from "../../gateway/address.ts";
import { allPages, type Client } from "../../gateway/client.ts";
import { copyFile, deleteFile, directoryPrefix, ensureBucket, isNoBucket } from "../../gateway/objects.ts";
import { asOneCommit, mustBeOpen } from "../../gateway/open-commits.ts";
import { CliError, UsageError } from "../../output/failure.ts";
import { downloadFile } from "../download.ts";
import {
  checkTarget,
  type EntryPage,
  inPages,
  type LocalEntry,
  localEntries,
  localStats,
  stdinFile,
} from "../local-tree.ts";
import { makeFolder } from "../placing.ts";
import type { Progress } from "../progress.ts";
import type { SplitKind } from "../split/split-file.ts";
import { type Uploaded, uploadAsCommit } from "../upload.ts";
import { isSeveral, type RemoteFile, type RemoteSources, remoteFiles } from "./remote-files.ts";

const DOWNLOAD_LANES = 4;
/** Copies inside a gateway, and removals, that are asked for at once. */
const COPY_LANES = 8;

/** How local files go to a bucket. */
export interface UpOptions {
  readonly recursive?: true;
  readonly create?: true;
  readonly skipSpecial?: true;
  readonly contentType?: string;
  readonly split?: SplitKind;
  /** Records in one file. */
  readonly perFile?: number;
  readonly said: SaidOfCommit;
  readonly progress: Progress;
  /** Called with each entry once it is to be put. */
  readonly onEntry?: (entry: LocalEntry) => Promise<void> | void;
}

/** Puts files of this machine into a bucket, as one commit. */
export async function copyUp(
  client: Client,
  { sources, to, ...options }: { sources: readonly string[]; to: Address } & UpOptions,
): Promise<Uploaded> {
  const pages = await pagesToPut({ sources, to }, options);
  const { value: first } = await pages.next();
  if (!first) {
    const what = sources.map((source) => (source === "-" ? "stdin" : source)).join(", ");
    throw new CliError(`${what} holds ${options.split ? "nothing" : "no files"}`);
  }
  try {
    if (options.create) await ensureBucket(client, to.bucket);
    const { progress, said, contentType } = options;
    await mustBeOpen(client, to);
    return await uploadAsCommit(client, { to, first, rest: pages, progress, said, contentType });
  } catch (error) {
    throw isNoBucket(error) ? noSuchBucket(to) : error;
  } finally {
    options.progress.end();
    // Not waited for: it may be waiting for input itself.
    pages.return(undefined).catch(() => {});
  }
}

async function pagesToPut(
  { sources, to }: { sources: readonly string[]; to: Address },
  options: UpOptions,
): Promise<AsyncGenerator<EntryPage>> {
  const { recursive, split, perFile, onEntry } = options;
  if (perFile !== undefined && split === undefined) throw new UsageError("--per-file goes with --split only");
  if (split === undefined) {
    const entries = sources.includes("-")
      ? await entryOfStdin(sources, to)
      : await localEntries({
          ...{ sources, to: to.path, recursive: recursive === true },
          skipSpecial: options.skipSpecial === true,
        });
    return inPages(onEntry ? told(entries, onEntry) : entries);
  }
  const [from = "", ...more] = sources;
  if (recursive || more.length > 0) throw new UsageError("--split cuts one file: name one, and leave -r out");
  // A read of a named pipe that waits would keep the program from ending; of stdin it does not.
  if (from !== "-" && !(await localStats(from)).isFile()) {
    throw new UsageError(
      `--split cuts one file, and ${from} is none: send what comes from elsewhere to stdin, and give -`,
    );
  }
  const { splitFile } = await import("../split/split-file.ts");
  return splitFile({ from, by: split, perFile: perFile ?? 1, into: directoryPrefix(to.path) });
}

async function entryOfStdin(sources: readonly string[], to: Address): Promise<AsyncIterable<LocalEntry>> {
  if (sources.length > 1) throw new UsageError("stdin (-) is copied alone: leave the other sources out");
  if (to.path === "" || to.path.endsWith("/")) {
    throw new UsageError(
      `what comes on stdin has no name: give the file one, ${showAddress(to, `${to.path}<name>`)}`,
    );
  }
  checkTarget("stdin", to.path);
  const source = await stdinFile();
  return Readable.from([{ source, target: to.path, size: (await localStats(source)).size }]);
}

async function* told(
  entries: AsyncIterable<LocalEntry>,
  onEntry: (entry: LocalEntry) => Promise<void> | void,
): AsyncGenerator<LocalEntry> {
  for await (const entry of entries) {
    await onEntry(entry);
    yield entry;
  }
}

function noSuchBucket({ bucket }: Address): CliError {
  return new CliError(
    `there is no bucket s3://${bucket}: make it with 'sluice mb s3://${bucket}', or copy with --create`,
    { code: "NoSuchBucket" },
  );
}

export interface Downloaded {
  readonly files: number;
  readonly bytes: number;
  /** The file, if it was one, or the folder. */
  readonly target: string;
}

/** Brings files of buckets to this machine. `onFile` is called with each that is there. */
export async function copyDown(
  client: Client,
  {
    to,
    progress,
    onFile,
    ...named
  }: RemoteSources & { to: string; progress: Progress; onFile?: (file: RemoteFile) => void },
): Promise<Downloaded> {
  const [only] = named.sources;
  if (!isSeveral(named) && !named.recursive && only) {
    const isFolder = to.endsWith("/") || (await stillThere(to))?.isDirectory();
    const target = isFolder ? join(to, basename(only.path)) : to;
    const { size, etag } = await downloadFile(client, { from: only, target, progress });
    onFile?.({ from: only, size, etag, name: basename(only.path) });
    return { files: 1, bytes: size, target };
  }
  if (isSeveral(named) && (await stillThere(to))?.isDirectory() === false) {
    throw new UsageError(`several files go to a folder, and ${to} is a file`);
  }
  const done = { files: 0, bytes: 0 };
  const taken = new Map<string, Address>();
  progress.begin("receiving", 0);
  try {
    await forEachLimited(expected(remoteFiles(client, named), progress), {
      limit: DOWNLOAD_LANES,
      work: async (file) => {
        const { from, name } = file;
        const target = join(to, name);
        const other = taken.get(target);
        if (other) throw sameTarget({ from, other, target });
        // Two of one name can only come of several sources.
        if (isSeveral(named)) taken.set(target, from);
        if (from.path.endsWith("/")) await makeFolder(to, name);
        else {
          const { size } = await downloadFile(client, { from, target, top: to, progress });
          // Added when it is known: what was there before the wait may be less than what is there after it.
          done.bytes += size;
        }
        done.files++;
        onFile?.(file);
      },
    });
  } finally {
    progress.end();
  }
  return { ...done, target: to };
}

function sameTarget({ from, other, target }: { from: Address; other: Address; target: string }): CliError {
  const [one, two] = [showAddress(other, other.path), showAddress(from, from.path)];
  return new CliError(`${one} and ${two} would both become ${target}: copy them to two folders`);
}

async function* expected(files: AsyncIterable<RemoteFile>, progress: Progress): AsyncGenerator<RemoteFile> {
  for await (const file of files) {
    progress.grow(file.size);
    yield file;
  }
}

async function stillThere(path: string) {
  return lstat(path).catch(() => undefined);
}

/** Copies from bucket to bucket, as one commit. `onFile` is called with each file. */
export async function copyAcross(
  client: Client,
  {
    to,
    said,
    moves,
    create,
    onFile,
    ...named
  }: RemoteSources & {
    to: Address;
    said: SaidOfCommit;
    moves: boolean;
    /** Make the bucket that they go to if it is not there. */
    create: boolean;
    onFile?: (file: RemoteFile) => void;
  },
): Promise<CopiedWithin> {
  const folder = isSeveral(named) || named.recursive || to.path === "" || to.path.endsWith("/");
  if (isSeveral(named) && to.path !== "" && !to.path.endsWith("/")) {
    throw new UsageError(`several files go to a folder: end ${showAddress(to, to.path)} in /`);
  }
  const into = folder ? directoryPrefix(to.path) : "";
  const copies = async function* (): AsyncGenerator<Copy> {
    const taken = new Map<string, Address>();
    for await (const file of remoteFiles(client, named)) {
      const target = folder ? into + file.name : to.path;
      const other = taken.get(target);
      if (other) throw sameTarget({ from: file.from, other, target });
      if (isSeveral(named)) taken.set(target, file.from);
      onFile?.(file);
      yield { ...file, target };
    }
  };
  if (create) await ensureBucket(client, to.bucket);
  return await copyWithin(client, { copies: copies(), to, said, moves });
}

/** Removes files of this machine that are in a bucket now, and the folders that are empty then. What was changed since stays. */
export async function removeLocal(
  entries: readonly { source: string; modifiedMs: number; size: number }[],
  folders: readonly string[],
): Promise<readonly string[]> {
  const kept: string[] = [];
  const above = new Set<string>();
  for (const { source, modifiedMs, size } of entries) {
    const now = await stillThere(source);
    if (now?.isDirectory()) above.add(resolve(source));
    else if (now && (now.mtimeMs !== modifiedMs || now.size !== size)) kept.push(source);
    else {
      await rm(source, { force: true });
      above.add(dirname(resolve(source)));
    }
  }
  const tops = folders.map((folder) => resolve(folder));
  for (const folder of above) await removeEmpty(folder, tops);
  return kept;
}

async function removeEmpty(folder: string, tops: readonly string[]): Promise<void> {
  for (let at = folder; tops.some((top) => at === top || at.startsWith(`${top}/`)); at = dirname(at)) {
    const gone = await rmdir(at).then(
      () => true,
      () => false,
    );
    if (!gone && (await stillThere(at))) return;
  }
}

/** A file of a bucket and the path that it is to have in another one, or in the same. */
interface Copy extends RemoteFile {
  readonly target: string;
}

export interface CopiedWithin {
  /** Null if it was staged in an open commit. */
  readonly commit: string | null;
  readonly files: number;
  readonly bytes: number;
}

interface CopyWithin {
  readonly copies: AsyncIterable<Copy>;
  readonly to: Address;
  readonly said: SaidOfCommit;
  /** Whether what is copied inside one branch leaves the place that it had, in the same commit. */
  readonly moves: boolean;
}

/** Copies files from bucket to bucket as one commit, without bringing their bytes here. */
async function copyWithin(client: Client, { copies, to, said, moves }: CopyWithin): Promise<CopiedWithin> {
  const done = { files: 0, bytes: 0 };
  const copyAll = async (
    all: Iterable<Copy> | AsyncIterable<Copy>,
    { repo, branch, view }: ViewAddress,
  ): Promise<void> => {
    const bucket = viewBucket({ repo, branch, view });
    await forEachLimited(all, {
      limit: COPY_LANES,
      work: async ({ from, etag, size, target }) => {
        const isDirectory = from.path.endsWith("/");
        await copyFile(client, {
          ...{ from, to: { repo, branch, view, bucket, path: target } },
          ...(!isDirectory && { ifMatch: etag }),
        });
        if (moves && from.bucket === to.bucket && from.path !== target) {
          const old = { ...from, view, bucket };
          await deleteFile(client, old, isDirectory ? {} : { ifMatch: etag });
        }
        done.files++;
        done.bytes += size;
      },
    });
  };
  await mustBeOpen(client, to);
  const { repo, branch, view } = to;
  if (view !== undefined) {
    // What is staged may be listed with what is still to be copied.
    await copyAll(await allPages(copies), { repo, branch, view });
    return { commit: null, ...done };
  }
  return { commit: await asOneCommit(client, { to, said, fill: (open) => copyAll(copies, open) }), ...done };
}

/**
 * Removes files that are somewhere else now, as one commit. One that has other bytes by now stays: they were not moved.
 */
export async function removeMoved(client: Client, moved: readonly RemoteFile[]): Promise<void> {
  const [first] = moved;
  if (!first) return;
  const remove = async (open: ViewAddress): Promise<void> => {
    await forEachLimited(moved, {
      limit: COPY_LANES,
      work: async ({ from, etag }) => {
        const isDirectory = from.path.endsWith("/");
        const staged = { ...from, view: open.view, bucket: viewBucket(open) };
        await deleteFile(client, staged, isDirectory ? {} : { ifMatch: etag });
      },
    });
  };
  const { repo, branch, view } = first.from;
  if (view !== undefined) await remove({ repo, branch, view });
  else await asOneCommit(client, { to: { repo, branch }, fill: remove });
}
