import { hash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import type { ContentId } from "../../protocol/content.ts";
import { errorCode } from "../lib/fault.ts";
import { TreeHash } from "../lib/tree-hash.ts";

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

/** Opens a file to be verified, which does not count as a use of it. */
export function openToVerify(path: string): Promise<FileHandle> {
  // O_NOATIME is only there on Linux.
  return open(path, constants.O_RDONLY | (constants.O_NOATIME ?? 0));
}

/** Whether the file's bytes are the content. A file that can't be read holds nothing. Throws what `signal` is aborted with. */
export async function holdsContent(
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
