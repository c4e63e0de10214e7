import { type FileHandle, open, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { ContentId } from "../../protocol/content.ts";
import { failureOf } from "../gateway/client.ts";
import { DamagedContent, WrongContent } from "../gateway/resumable.ts";
import type { Failure } from "../gateway/retry.ts";
import { DatumFault, errorCode } from "../lib/fault.ts";
import { TreeHash } from "../lib/tree-hash.ts";
import { WriteBehind } from "./write-behind.ts";

/** Opens a file that is to become a content. It has its full size at once, so that a count of the disk counts all of it. */
export async function openIncoming(path: string, { size }: ContentId): Promise<FileHandle> {
  const file = await open(path, "wx", 0o444);
  try {
    await file.truncate(size);
    return file;
  } catch (error) {
    await file.close();
    await rm(path, { force: true });
    throw error;
  }
}

/** Writes a body to the beginning of the file. Throws DamagedContent if it is not the content. */
export async function writeVerified(
  file: FileHandle,
  { body, content }: { body: Readable; content: ContentId },
): Promise<void> {
  const hash = new TreeHash();
  const writing = new WriteBehind(file);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      hash.update(chunk);
      if (hash.size > content.size) throw new DamagedContent(content, `more than ${content.size} bytes came`);
      await writing.add(chunk);
    }
    await writing.end();
  } finally {
    body.destroy();
    // Else a late write of this try could land in the next one.
    await writing.idle();
  }
  const found = hash.finish();
  if (found.size !== content.size) throw new DamagedContent(content, `${found.size} bytes came`);
  if (found.digest !== content.digest)
    throw new DamagedContent(content, `the bytes have the digest ${found.digest}`);
}

/** Whether the disk is full, or the agent's quota of it. */
export function isFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes(errorCode(error) ?? "");
}

export function diskFull({ size }: ContentId, dir: string): DatumFault {
  return new DatumFault(
    `the disk of this node is full: there is no room in ${dir} for ${size} bytes of input`,
  );
}

/** Whether fetching again may help. */
export function fetchFailure(error: unknown): Failure {
  if (error instanceof DamagedContent) return error instanceof WrongContent ? "final" : "transient";
  if (error instanceof DatumFault) return "final";
  // A fault of this machine's disk: trying again at once does not help.
  if (isFull(error) || ["EROFS", "EACCES", "EIO"].includes(errorCode(error) ?? "")) return "final";
  return failureOf(error);
}
