import { constants } from "node:fs";
import { type FileHandle, lstat, open, opendir, statfs } from "node:fs/promises";
import { type ContentId, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import { MAX_OUTPUTS_PER_DATUM } from "../../protocol/runner.ts";
import { DatumFault, errorCode } from "../lib/fault.ts";
import { sizeText } from "../lib/sizes.ts";
import { contentIdOf, TreeHash } from "../lib/tree-hash.ts";
import { childPath, nameText, permitted, printable, quotedPath, type RawPath } from "./raw-path.ts";

/** What a datum left in `/pfs/out`: a file, or with a trailing slash an empty directory. */
export interface Collected {
  readonly path: string;
  readonly content: ContentId;
  /** The bytes, if they are few enough to travel in a message. */
  readonly bytes: Uint8Array | null;
  /** The path of the file on this machine. */
  readonly source: RawPath;
}

export interface CollectRequest {
  /** The folder that was `/pfs/out`. Nothing may write there any more. */
  readonly out: string;
  readonly signal: AbortSignal;
}

/**
 * Walks `/pfs/out` and hashes what is there. The command wrote it, so nothing is trusted: links are not followed,
 * and opening never blocks. Throws DatumFault, which names the path, for an entry that can't become a file of the branch.
 */
export async function collect({ out, signal }: CollectRequest): Promise<Collected[]> {
  const found: Collected[] = [];
  let left = await capacityOf(out);
  for await (const entry of walk(out, "")) {
    signal.throwIfAborted();
    if (found.length === MAX_OUTPUTS_PER_DATUM) throw tooMany();
    const output = entry.kind === "dir" ? emptyFolder(entry) : await readOutput(entry, { left, signal });
    left -= output.content.size;
    found.push(output);
  }
  return found;
}

function tooMany(): DatumFault {
  return new DatumFault(
    `the command wrote more than ${MAX_OUTPUTS_PER_DATUM} files; a datum may write no more`,
  );
}

/** The size of the disk, in bytes. A larger file that lies on it all the same is made of holes. */
async function capacityOf(out: string): Promise<number> {
  const { blocks, bsize } = await statfs(out);
  // Some file systems say 0.
  return blocks * bsize || Number.POSITIVE_INFINITY;
}

interface Walked {
  readonly kind: "file" | "dir";
  readonly path: string;
  readonly source: RawPath;
}

const EMPTY = new Uint8Array(0);

function emptyFolder({ path, source }: Walked): Collected {
  return { path, content: contentIdOf(EMPTY), bytes: EMPTY, source };
}

/**
 * The files, and the directories that hold nothing, below a folder. `prefix` is its path in the output: "" or ending
 * in `/`. One folder is open at a time, however deep it goes, and none while its files are read.
 */
async function* walk(folder: RawPath, prefix: string): AsyncGenerator<Walked> {
  const entries: Walked[] = [];
  for await (const entry of entriesOf(folder, prefix)) {
    // Each entry makes at least one output.
    if (entries.length === MAX_OUTPUTS_PER_DATUM) throw tooMany();
    entries.push(entry);
  }
  if (entries.length === 0 && prefix !== "") {
    yield { kind: "dir", path: checkedPath(prefix), source: folder };
  }
  yield* entries.filter(({ kind }) => kind === "file");
  for (const { kind, path, source } of entries) if (kind === "dir") yield* walk(source, `${path}/`);
}

async function* entriesOf(folder: RawPath, prefix: string): AsyncGenerator<Walked> {
  const entries = await permitted({ path: folder, mode: 0o700 }, () =>
    opendir(folder, { encoding: "latin1", bufferSize: 256 }),
  );
  for await (const entry of entries) {
    const path = prefix + checkedName(prefix, entry.name);
    const source = childPath(folder, entry.name);
    // Not every file system tells kinds in its listings.
    const plain = entry.isDirectory() || entry.isFile() ? entry : await lstat(source);
    if (!plain.isDirectory() && !plain.isFile()) throw notPlain(path);
    yield { kind: plain.isFile() ? "file" : "dir", path: checkedPath(path), source };
  }
}

function checkedName(prefix: string, raw: string): string {
  const name = nameText(raw);
  if (name !== undefined) return name;
  throw new DatumFault(`output file "${printable(prefix + raw)}" has a name that is not valid UTF-8`);
}

function checkedPath(path: string): string {
  const fault = pathFault(path);
  if (fault === undefined) return path;
  throw new DatumFault(`output file ${quotedPath(path)} can't be stored: ${PATH_FAULT_TEXT[fault]}`);
}

function notPlain(path: string): DatumFault {
  return new DatumFault(
    `output ${quotedPath(path)} is a symbolic link, a pipe, a socket or a device; only files and directories can be stored`,
  );
}

function tooLarge(path: string, { size, left }: { size: number; left: number }): DatumFault {
  return new DatumFault(
    `output file ${quotedPath(path)} has ${sizeText(size)}, more than the ${sizeText(left)} that the node's disk ` +
      "could hold of it: a file is stored with its holes",
  );
}

async function readOutput(
  { path, source }: Walked,
  { left, signal }: { left: number; signal: AbortSignal },
): Promise<Collected> {
  const file = await openPlain(source).catch((error: unknown) => {
    throw errorCode(error) === "ELOOP" ? notPlain(path) : error;
  });
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw notPlain(path);
    if (stat.size > left) throw tooLarge(path, { size: stat.size, left });
    if (stat.size > INLINE_LIMIT_BYTES)
      return { path, source, bytes: null, content: await hashFile(file, signal) };
    const bytes = await file.readFile();
    return { path, source, bytes, content: contentIdOf(bytes) };
  } finally {
    await file.close();
  }
}

/** Opens a file as such, though its command may have closed it: a link at the end of the path is an error, a pipe does not block. */
export function openPlain(source: RawPath): Promise<FileHandle> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  return permitted({ path: source, mode: 0o600 }, () => open(source, flags));
}

const READ_BYTES = 1024 * 1024;

async function hashFile(file: FileHandle, signal: AbortSignal): Promise<ContentId> {
  const hash = new TreeHash();
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, null);
    if (bytesRead === 0) return hash.finish();
    hash.update(buffer.subarray(0, bytesRead));
  }
}
