import { type FileHandle, open, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { ContentId } from "../../protocol/content.ts";
import { LEAF_BYTES, treeRoot } from "../../protocol/digest.ts";
import { type Failure, failureOf } from "../gateway/client.ts";
import { DamagedContent, WrongContent } from "../gateway/resumable.ts";
import { DatumFault, errorCode } from "../lib/fault.ts";
import { leavesOf } from "../lib/leaf-threads.ts";
import { writeAt } from "../lib/system-calls.ts";
import { sha256, TreeHash } from "../lib/tree-hash.ts";

/** Opens a file that is to become a content. It has its full size at once, so that a count of the disk counts all of it. */
export async function openIncoming(path: string, { size }: ContentId): Promise<FileHandle> {
  // Readable too: a large one is hashed from what was written.
  const file = await open(path, "wx+", 0o444);
  try {
    await file.truncate(size);
    return file;
  } catch (error) {
    await file.close();
    await rm(path, { force: true });
    throw error;
  }
}

/** Writes a body, whose pieces nobody else may use, to the beginning of the file. Throws DamagedContent if it is not the content. */
export async function writeVerified(
  file: FileHandle,
  { body, content }: { body: Readable; content: ContentId },
): Promise<void> {
  const hash = content.size < HASHED_TOGETHER_BYTES ? new PassingHash() : new HashBehind(file);
  const writing = new WriteBehind(file, (end) => hash.written(end));
  let size = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > content.size) throw new DamagedContent(content, `more than ${content.size} bytes came`);
      hash.pass(chunk);
      await writing.add(chunk);
    }
    await writing.end();
  } finally {
    body.destroy();
    // Else a late write of this try could land in the next one, and a late read in a file that is not this one.
    await writing.idle();
    await hash.idle();
  }
  if (size !== content.size) throw new DamagedContent(content, `${size} bytes came`);
  const digest = await hash.digest(size);
  if (digest !== content.digest) throw new DamagedContent(content, `the bytes have the digest ${digest}`);
}

/** Whether the disk is full, or the agent's quota of it. */
export function isFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes(errorCode(error) ?? "");
}

/** The disk has no room for a content, although the cache has given way. */
export class NoRoom extends Error {
  override readonly name = "NoRoom";
  readonly code = "ENOSPC";
  readonly sizeBytes: number;

  constructor({ size }: ContentId, dir: string) {
    super(`the disk of this node is full: there is no room in ${dir} for ${size} bytes of input`);
    this.sizeBytes = size;
  }
}

/** Whether fetching again may help. */
export function fetchFailure(error: unknown): Failure {
  if (error instanceof DamagedContent) return error instanceof WrongContent ? "final" : "transient";
  if (error instanceof DatumFault) return "final";
  // A fault of this machine's disk: trying again at once does not help.
  if (isFull(error) || ["EROFS", "EACCES", "EIO"].includes(errorCode(error) ?? "")) return "final";
  return failureOf(error);
}

/** Bytes that are written together: a call for each piece of a body would cost more than the bytes. */
const TOGETHER_BYTES = 1024 * 1024;
/** Far below what one call may take (IOV_MAX of writev(2)). */
const TOGETHER_PIECES = 256;

/** What another thread is asked to hash at a time. A smaller content is hashed as it passes, which costs less than asking. */
const HASHED_TOGETHER_BYTES = 4 * LEAF_BYTES;

/** How the bytes of a file that is written from its beginning are hashed: one is told of what comes, and of what is written. */
interface BodyHash {
  pass(bytes: Uint8Array): void;
  /** The bytes before `end` are in the file. */
  written(end: number): void;
  /** Waits until nothing reads the file. */
  idle(): Promise<void>;
  /** To be called once, when all is written. */
  digest(size: number): Promise<string>;
}

/** Hashes bytes as they pass. */
class PassingHash implements BodyHash {
  readonly #tree = new TreeHash();

  pass(bytes: Uint8Array): void {
    this.#tree.update(bytes);
  }

  written(): void {}
  async idle(): Promise<void> {}

  async digest(): Promise<string> {
    return this.#tree.finish().digest;
  }
}

/**
 * Hashes what the file system has of the file, behind its writing and on another thread, so that this one only moves
 * bytes. Holds no bytes, however far behind it is.
 */
class HashBehind implements BodyHash {
  readonly #file: FileHandle;
  readonly #leaves: Promise<Uint8Array[]>[] = [];
  #end = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  pass(): void {}

  written(end: number): void {
    while (end - this.#end >= HASHED_TOGETHER_BYTES) this.#hashTo(this.#end + HASHED_TOGETHER_BYTES);
  }

  async idle(): Promise<void> {
    await Promise.allSettled(this.#leaves);
  }

  async digest(size: number): Promise<string> {
    if (size > this.#end) this.#hashTo(size);
    await this.idle();
    return Buffer.from(treeRoot((await Promise.all(this.#leaves)).flat(), sha256)).toString("hex");
  }

  #hashTo(end: number): void {
    const leaves = leavesOf({ descriptor: this.#file.fd, from: this.#end, to: end });
    // The digest throws what it throws.
    leaves.catch(() => undefined);
    this.#leaves.push(leaves);
    this.#end = end;
  }
}

/** Writes a body from the beginning of a file, in order. The next pieces, a MiB or two at most, gather while one write is under way. */
class WriteBehind {
  readonly #file: FileHandle;
  readonly #onWritten: (end: number) => void;
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #position = 0;
  #writing: Promise<void> = Promise.resolve();

  /** `onWritten` hears up to which byte the file has them. */
  constructor(file: FileHandle, onWritten: (end: number) => void) {
    this.#file = file;
    this.#onWritten = onWritten;
  }

  /** Takes a piece, which must not change from then on. Throws what an earlier write threw. */
  async add(bytes: Uint8Array): Promise<void> {
    this.#pieces.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes < TOGETHER_BYTES && this.#pieces.length < TOGETHER_PIECES) return;
    await this.#writing;
    this.#write();
  }

  /** Writes what is left. */
  async end(): Promise<void> {
    await this.#writing;
    this.#write();
    await this.#writing;
  }

  /** Waits for the write that is under way, however it ends. The file may then be closed. */
  async idle(): Promise<void> {
    await this.#writing.catch(() => undefined);
  }

  #write(): void {
    const [pieces, position] = [this.#pieces, this.#position];
    this.#position += this.#bytes;
    this.#pieces = [];
    this.#bytes = 0;
    const end = this.#position;
    this.#writing = writeAll(this.#file, { pieces, position }).then(() => this.#onWritten(end));
    // The next call awaits it and throws what it throws.
    this.#writing.catch(() => undefined);
  }
}

async function writeAll(
  file: FileHandle,
  { pieces, position }: { pieces: readonly Uint8Array[]; position: number },
): Promise<void> {
  if (pieces.length === 0) return;
  let { bytesWritten: done } = await file.writev(pieces, position);
  let start = position;
  for (const piece of pieces) {
    const written = Math.min(done, piece.length);
    // If the disk took less, writing the rest throws the reason.
    if (written < piece.length)
      await writeAt(file, { bytes: piece.subarray(written), position: start + written });
    done -= written;
    start += piece.length;
  }
  for (const piece of pieces) release(piece);
}

/**
 * Frees a piece's memory at once if the piece is all of it, and so nobody else has any of it. Left to V8,
 * every 64 MiB of a body would cost a collection of the whole heap.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** A copy of a content that is made while it passes by. If it can't be made, on a full disk, nobody hears of it. */
export class PassingCopy {
  readonly #path: string;
  readonly #content: ContentId;
  #file: FileHandle | undefined;
  #position = 0;

  constructor(path: string, content: ContentId) {
    this.#path = path;
    this.#content = content;
  }

  async open(): Promise<void> {
    this.#file = await openIncoming(this.#path, this.#content).catch(() => undefined);
  }

  /** The next bytes. */
  async write(bytes: Buffer): Promise<void> {
    if (!this.#file) return;
    try {
      await writeAt(this.#file, { bytes, position: this.#position });
      this.#position += bytes.length;
    } catch {
      await this.close();
    }
  }

  /** The whole copy, or undefined if it is not whole. */
  get whole(): { readonly path: string; readonly file: FileHandle } | undefined {
    if (!this.#file || this.#position !== this.#content.size) return undefined;
    return { path: this.#path, file: this.#file };
  }

  /** Lets go of the file. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
    if (file) await rm(this.#path, { force: true });
  }
}
