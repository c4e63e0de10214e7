import { chmodSync } from "node:fs";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { keepFolder } from "./flush.ts";

const OWNER_ONLY = 0o700;

/** Makes a folder of ours. Nobody else may look into it, also if the folder that the user named was there and is open to others. */
export function makeOwnFolder(path: string): void {
  keepFolder(path, OWNER_ONLY);
  chmodSync(path, OWNER_ONLY);
}

/**
 * What workerd's disk service calls a file until it is written to its end: `.<name>.<process>.<number>.tmp`. It lists no
 * name that begins with a dot, and no blob's does.
 */
const PARTIAL = /^\..+\.\d+\.\d+\.tmp$/;

/**
 * Removes what a killed runtime had not written to its end, from a folder of blobs: files that nobody can name, older than
 * the present runtime. Goes from folder to folder, so that it holds one listing at a time.
 */
export async function removePartials(folder: string, { before }: { readonly before: number }): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await removePartials(path, { before });
    else if (PARTIAL.test(entry.name) && (await stat(path)).mtimeMs < before) {
      await rm(path, { force: true });
    }
  }
}
