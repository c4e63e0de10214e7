import { hash } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  rmSync,
  type Stats,
  statSync,
} from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type ContentId, contentName } from "../../protocol/content.ts";
import { errorCode, messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { orNothing } from "../lib/system-calls.ts";
import { contentIdOf, TreeHash } from "../lib/tree-hash.ts";
import { type Entry, linkInto, linkOrCopy, SHARDS } from "./entries.ts";

export interface CacheFilesOptions {
  readonly dir: string;
  /** Names the present boot of the machine. */
  readonly boot: string;
  readonly log: Log;
  readonly now: () => number;
  /** Ends the reading of files that are to be verified. */
  readonly kill: AbortSignal;
}

/** A use is only written down if the last one that was written down is longer ago than this. */
const TOUCH_MS = 10 * 60_000;

/** The files of the cache as they lie on the disk. Hands out none that may be damaged (see Seals). */
export class CacheFiles {
  readonly #options: CacheFilesOptions;
  readonly #seals: Seals;

  constructor(options: CacheFilesOptions) {
    this.#options = options;
    this.#seals = new Seals(options.boot);
  }

  pathOf(content: ContentId): string {
    return join(this.#options.dir, content.digest.slice(0, 2), contentName(content));
  }

  /** Links an intact entry to `target`, and makes its folder if it is missing. Returns false if there is no such entry. */
  async place(content: ContentId, target: string): Promise<boolean> {
    const timed = await this.#link(this.pathOf(content), target);
    // Synchronous, because the kernel has just had the file in its hands.
    const stats = timed && statSync(timed, { throwIfNoEntry: false });
    if (timed && stats && this.#seals.intact(content, stats)) {
      await this.#touch(timed, { content, stats });
      return true;
    }
    if (timed) await rm(target, { force: true });
    return false;
  }

  /** An intact entry, opened, or undefined. */
  async open(content: ContentId): Promise<FileHandle | undefined> {
    const path = this.pathOf(content);
    const file = await orNothing(open(path));
    const stats = await file?.stat();
    if (stats && this.#seals.intact(content, stats)) {
      await this.#touch(path, { content, stats });
      return file;
    }
    await file?.close();
    return undefined;
  }

  /** A content that can be read at once, held to its digest. Returns undefined if it is not there. */
  readSmall(content: ContentId): Buffer | undefined {
    const path = this.pathOf(content);
    try {
      const { bytes, stats } = readWhole(path, content.size);
      if (bytes.length === content.size && contentIdOf(bytes).digest === content.digest) {
        if (this.#seals.intact(content, stats)) void this.#touch(path, { content, stats });
        return bytes;
      }
      this.#tell(content);
      rmSync(path, { force: true });
      return undefined;
    } catch {
      // It is not there, or the next reader says what is wrong.
      return undefined;
    }
  }

  /** Gives an entry whose bytes are right the second name `to`, even if its seal is broken. Returns false if there is none. Removes a damaged one. */
  async recover(content: ContentId, to: string): Promise<boolean> {
    if ((await orNothing(linkOrCopy(this.pathOf(content), to))) === undefined) return false;
    if (await this.#verify(to, { content, signal: this.#options.kill })) return true;
    await rm(to, { force: true });
    await this.#drop(content);
    return false;
  }

  /** Seals a file whose bytes were held to their digest. */
  seal(file: FileHandle, content: ContentId): Promise<void> {
    return this.#seals.set(file, { content, usedAt: this.#options.now() });
  }

  /** Makes a sealed file an entry. Returns false if there is one already, or if it can't be made: it is then fetched again. */
  async keep(content: ContentId, from: string): Promise<boolean> {
    const path = this.pathOf(content);
    try {
      if ((await linkInto(from, path)) !== path)
        await this.#verify(path, { content, signal: this.#options.kill });
      return true;
    } catch (error) {
      const { log } = this.#options;
      if (errorCode(error) !== "EEXIST")
        log.warn({ path, reason: messageOf(error) }, "an input could not be added to the cache");
      return false;
    }
  }

  /** Removes entries; those that are not there are none. What datums have of them stays theirs. */
  async remove(contents: readonly ContentId[]): Promise<void> {
    await removeAll(contents.map((content) => this.pathOf(content)));
  }

  /** Removes every entry, and whatever else lies beside them. */
  async empty(): Promise<void> {
    for (const shard of SHARDS) {
      const folder = join(this.#options.dir, shard);
      await removeAll(((await orNothing(readdir(folder))) ?? []).map((name) => join(folder, name)));
    }
  }

  /** Reads an entry again, and removes it if it is damaged. That does not count as a use. */
  async check({ path, content }: Entry, signal: AbortSignal): Promise<void> {
    const sound = await orNothing(this.#verify(path, { content, signal, thorough: true }));
    if (sound === false) await this.#drop(content);
  }

  /** Whether a file is the content. Seals it if it is. `thorough`: reads it even if its seal is intact. */
  async #verify(
    path: string,
    { content, signal, thorough }: { content: ContentId; signal: AbortSignal; thorough?: true },
  ): Promise<boolean> {
    // That does not count as a use of it. O_NOATIME is only there on Linux.
    const file = await open(path, constants.O_RDONLY | (constants.O_NOATIME ?? 0));
    try {
      const stats = await file.stat();
      const intact = this.#seals.intact(content, stats);
      if (intact && !thorough) return true;
      if (!(await holdsContent(file, { content, signal }))) return false;
      if (!intact) await this.#seals.set(file, { content, usedAt: stats.atimeMs });
      return true;
    } finally {
      await file.close();
    }
  }

  async #link(path: string, target: string): Promise<string | undefined> {
    const timed = await orNothing(linkOrCopy(path, target));
    if (timed !== undefined || !existsSync(path)) return timed;
    await mkdir(dirname(target), { recursive: true });
    return orNothing(linkOrCopy(path, target));
  }

  /** Writes a use down. If that fails, the file may go before its time. */
  async #touch(path: string, { content, stats }: { content: ContentId; stats: Stats }): Promise<void> {
    const now = this.#options.now();
    if (Math.abs(now - stats.atimeMs) < TOUCH_MS) return;
    await utimes(path, now / 1000, this.#seals.of(content)).catch(() => undefined);
  }

  async #drop(content: ContentId): Promise<void> {
    this.#tell(content);
    await rm(this.pathOf(content), { force: true });
  }

  #tell(content: ContentId): void {
    const { log } = this.#options;
    log.warn({ content: contentName(content) }, "an input in the cache was damaged and is removed");
  }
}

const REMOVED_AT_ONCE = 32;

async function removeAll(paths: readonly string[]): Promise<void> {
  for (let from = 0; from < paths.length; from += REMOVED_AT_ONCE) {
    const some = paths.slice(from, from + REMOVED_AT_ONCE);
    await Promise.all(some.map((path) => rm(path, { force: true, recursive: true })));
  }
}

function readWhole(path: string, size: number): { bytes: Buffer; stats: Stats } {
  const descriptor = openSync(path, "r");
  try {
    // One byte more than there should be, so that a longer file is noticed.
    const bytes = Buffer.allocUnsafe(size + 1);
    const length = readSync(descriptor, bytes, 0, bytes.length, 0);
    return { bytes: bytes.subarray(0, length), stats: fstatSync(descriptor) };
  } finally {
    closeSync(descriptor);
  }
}

/**
 * How a file of the cache is known to be whole without being read: once its bytes have been held to their digest,
 * its time of modification is set to its *seal*, a whole second that only this content has on this boot. A
 * write to the file, through whatever link, moves that time to the present and breaks the seal. A reboot breaks it,
 * too: after one, files that were never synced may be hollow. A broken seal is no verdict: the bytes are read, and
 * sealed again or thrown away. The time of the last change of status is of no use here, because each link moves it.
 */
export class Seals {
  readonly #boot: string;

  /** `boot` names the present boot of the machine. */
  constructor(boot: string) {
    this.#boot = boot;
  }

  /** Whether the file is as it was when it was sealed. */
  intact(content: ContentId, { size, mtimeMs }: Pick<Stats, "size" | "mtimeMs">): boolean {
    return size === content.size && mtimeMs === this.of(content) * 1000;
  }

  /** Seals a file whose bytes were verified. `usedAt` in milliseconds. If the file system can't keep the seal, the next use reads the bytes again. */
  async set(file: FileHandle, { content, usedAt }: { content: ContentId; usedAt: number }): Promise<void> {
    await file.utimes(usedAt / 1000, this.of(content)).catch(() => undefined);
  }

  /** The seal, in seconds since 1970: whole ones, which every file system keeps. */
  of({ digest }: ContentId): number {
    return FIRST_SECONDS + hash("sha256", `${digest} ${this.#boot}`, "buffer").readUIntBE(0, 3);
  }
}

/** 2001-01-01; seals lie within the 194 days that follow. */
const FIRST_SECONDS = 978_307_200;
const READ_BYTES = 1024 * 1024;

/** Whether the file's bytes are the content. A file that can't be read holds nothing. Throws what `signal` is aborted with. */
async function holdsContent(
  file: FileHandle,
  { content, signal }: { content: ContentId; signal: AbortSignal },
): Promise<boolean> {
  if ((await file.stat()).size !== content.size) return false;
  const found = new TreeHash();
  try {
    const bytes = file.createReadStream({ start: 0, autoClose: false, highWaterMark: READ_BYTES, signal });
    for await (const chunk of bytes) found.update(chunk as Buffer);
  } catch (error) {
    signal.throwIfAborted();
    if (errorCode(error) !== "EIO") throw error;
    return false;
  }
  return found.finish().digest === content.digest;
}
