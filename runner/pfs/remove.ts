import { opendir, rmdir, unlink } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { errorCode } from "../fault.ts";
import { permitted } from "./permitted.ts";
import { childPath, type RawPath } from "./raw-path.ts";

// A killed command's last processes may still be ending, and writing, while its folder goes.
const MAX_TRIES = 20;
const TRY_AGAIN_MS = 25;

/** Removes a folder of ours and everything in it, whatever its names and modes are, following no link in it. Fine where it is gone. */
export async function removeTree(folder: RawPath): Promise<void> {
  for (let left = MAX_TRIES; ; left -= 1) {
    try {
      return await removeFolder(folder);
    } catch (error) {
      if (left === 0 || errorCode(error) !== "ENOTEMPTY") throw error;
      await delay(TRY_AGAIN_MS);
    }
  }
}

async function removeFolder(folder: RawPath): Promise<void> {
  const entries = await orGone(
    permitted({ path: folder, mode: 0o700 }, () => opendir(folder, { encoding: "latin1", bufferSize: 256 })),
  );
  if (!entries) return;
  for await (const entry of entries) {
    const path = childPath(folder, entry.name);
    await (entry.isDirectory() ? removeFolder(path) : removeFile(path, folder));
  }
  await orGone(rmdir(folder));
}

async function removeFile(path: RawPath, folder: RawPath): Promise<void> {
  try {
    await orGone(permitted({ path: folder, mode: 0o700 }, () => unlink(path)));
  } catch (error) {
    // A file system that does not tell kinds in its listings. No link can be meant: it would be gone now.
    if (errorCode(error) !== "EISDIR") throw error;
    await removeFolder(path);
  }
}

async function orGone<T>(action: Promise<T>): Promise<T | undefined> {
  try {
    return await action;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
