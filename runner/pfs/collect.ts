import { constants } from "node:fs";
import { type FileHandle, lstat, open, opendir } from "node:fs/promises";
import { type ContentId, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import { MAX_OUTPUTS_PER_DATUM } from "../../protocol/runner.ts";
import { DatumFault, errorCode } from "../fault.ts";
import { contentIdOf, TreeHash } from "../tree-hash.ts";
import { permitted } from "./permitted.ts";
import { childPath, nameText, printable, type RawPath } from "./raw-path.ts";

/** What a datum left in `/pfs/out`: a file, or with a trailing slash an empty directory. */
export interface Collected {
  readonly path: string;
  readonly content: ContentId;
  /** The bytes, where they are few enough to travel in a message. */
  readonly bytes: Uint8Array | null;
  /** Where the file lies on this machine. */
  readonly source: RawPath;
}

export interface CollectRequest {
  /** The folder that was `/pfs/out`. Nothing may write there any more. */
  readonly out: string;
  readonly signal: AbortSignal;
}

/**
 * Walks `/pfs/out` and hashes what is there. The command wrote it, so nothing is trusted: links are not followed,
 * and opening never blocks. Throws DatumFault, naming the path, for whatever can't become a file of the branch.
 */
export async function collect({ out, signal }: CollectRequest): Promise<Collected[]> {
  const found: Collected[] = [];
  for await (const entry of walk(out, "")) {
    signal.throwIfAborted();
    if (found.length === MAX_OUTPUTS_PER_DATUM) {
      throw new DatumFault(
        `the command wrote more than ${MAX_OUTPUTS_PER_DATUM} files; a datum may write no more`,
      );
    }
    found.push(entry.kind === "dir" ? emptyFolder(entry) : await readOutput(entry, signal));
  }
  return found;
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

/** The files, and the directories that hold nothing, below a folder. `prefix` is its path in the output: "" or ending in `/`. */
async function* walk(folder: RawPath, prefix: string): AsyncGenerator<Walked> {
  const entries = await permitted({ path: folder, mode: 0o700 }, () =>
    opendir(folder, { encoding: "latin1", bufferSize: 256 }),
  );
  let empty = true;
  for await (const entry of entries) {
    empty = false;
    const path = prefix + checkedName(prefix, entry.name);
    const source = childPath(folder, entry.name);
    // Not every file system tells kinds in its listings.
    const plain = entry.isDirectory() || entry.isFile() ? entry : await lstat(source);
    if (plain.isDirectory()) yield* walk(source, `${checkedPath(path)}/`);
    else if (plain.isFile()) yield { kind: "file", path: checkedPath(path), source };
    else throw notPlain(path);
  }
  if (empty && prefix !== "") yield { kind: "dir", path: checkedPath(prefix), source: folder };
}

function checkedName(prefix: string, raw: string): string {
  const name = nameText(raw);
  if (name !== undefined) return name;
  throw new DatumFault(`output file "${printable(prefix + raw)}" has a name that is not valid UTF-8`);
}

function checkedPath(path: string): string {
  const fault = pathFault(path);
  if (fault === undefined) return path;
  throw new DatumFault(`output file ${JSON.stringify(path)} can't be stored: ${PATH_FAULT_TEXT[fault]}`);
}

function notPlain(path: string): DatumFault {
  return new DatumFault(
    `output "${path}" is a symbolic link, a pipe, a socket or a device; only files and directories can be stored`,
  );
}

async function readOutput({ path, source }: Walked, signal: AbortSignal): Promise<Collected> {
  const file = await permitted({ path: source, mode: 0o600 }, () => openPlain(source)).catch(
    (error: unknown) => {
      throw errorCode(error) === "ELOOP" ? notPlain(path) : error;
    },
  );
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw notPlain(path);
    if (stat.size > INLINE_LIMIT_BYTES)
      return { path, source, bytes: null, content: await hashFile(file, signal) };
    const bytes = await file.readFile();
    return { path, source, bytes, content: contentIdOf(bytes) };
  } finally {
    await file.close();
  }
}

/** Opens a file as such: a link at the end of the path is an error, a pipe does not block. */
export function openPlain(source: RawPath): Promise<FileHandle> {
  return open(source, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
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
