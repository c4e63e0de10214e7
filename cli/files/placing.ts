import { randomBytes } from "node:crypto";
import { constants, openSync, type Stats } from "node:fs";
import { lstat, mkdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CliError, errnoOf } from "../output/failure.ts";

/*
 * How files come to this machine. Names come from a gateway, which is checked where its listings are read
 * (gateway/objects.ts): none leads out of the folder that a person named. Other users of this machine may lay links and
 * pipes in a folder that all may write to, such as `/tmp`. A draft has a name that nobody can know before, and is made
 * new; what is renamed over a link takes its place. A folder that is a link is written through, as every copy does, but
 * not if another user laid it in such a folder, which is the rule of Linux for folders like /tmp (protected_symlinks in
 * proc_sys_fs(5)). That is looked up just before: against who swaps a folder for a link in between, only that rule of
 * the kernel holds.
 */

/** Opened new, or not at all: never what somebody laid there. */
export const DRAFT_FLAGS =
  constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

const DRAFT_BYTES = 8;
/** Longer names of files leave no room for more: file systems take 255 bytes. */
const MAX_NAMED_BYTES = 200;

/** A path beside another one for the bytes that are to become that file. */
export function draftOf(target: string): string {
  const name = basename(target);
  const named = Buffer.byteLength(name) > MAX_NAMED_BYTES ? "" : name;
  return join(dirname(target), `${named}.sluice-${randomBytes(DRAFT_BYTES).toString("hex")}`);
}

/** A new file of that kind, open to write. */
export function openDraft(target: string): { readonly path: string; readonly descriptor: number } {
  const path = draftOf(target);
  return { path, descriptor: openSync(path, DRAFT_FLAGS) };
}

/**
 * Makes a folder below another one, which is made as well, and all between them. Throws a CliError if one of them is a
 * link that another user laid in a folder that all may write to.
 */
export async function makeFolder(top: string, path: string): Promise<void> {
  await mkdir(top, { recursive: true });
  let folder = top;
  for (const name of path.split("/").filter((part) => part !== "" && part !== ".")) {
    const inner = join(folder, name);
    const found = await lstat(inner).catch(() => undefined);
    if (!found) await makeOne(inner);
    else if (found.isSymbolicLink() && (await isLaid(found, folder))) {
      throw new CliError(
        `${inner} is a link that another user laid in a folder that all may write to: remove it, or copy to another folder`,
        { code: "ForeignLink" },
      );
    }
    folder = inner;
  }
}

async function makeOne(folder: string): Promise<void> {
  await mkdir(folder).catch((error: unknown) => {
    // Another file's copy has made it meanwhile.
    if (errnoOf(error) !== "EEXIST") throw error;
  });
}

/** Whether it is there and neither a file nor a folder: a file of that name would take its place. */
export async function isSpecial(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (!found || found.isFile() || found.isDirectory()) return false;
  // What somebody laid there in wait for the bytes is replaced, if the system lets us.
  if (await isLaid(found, dirname(path))) return false;
  const stats = found.isSymbolicLink() ? await stat(path).catch(() => undefined) : found;
  return stats !== undefined && !stats.isFile() && !stats.isDirectory();
}

/** Whether an entry is neither ours, nor root's, nor of the folder's owner, in a folder that all may write to. */
async function isLaid({ uid }: Stats, folder: string): Promise<boolean> {
  const own = process.getuid?.();
  if (own === undefined || uid === own || uid === 0) return false;
  const around = await stat(folder);
  return uid !== around.uid && (around.mode & constants.S_IWOTH) !== 0;
}
