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

/** Milliseconds by both clocks of the machine: one may be set, and nobody sets the other. */
export interface Moment {
  readonly wall: number;
  readonly steady: number;
}

export function presentMoment(): Moment {
  return { wall: Date.now(), steady: performance.now() };
}

/**
 * Removes what a killed runtime had not written to its end, from a folder of blobs: files that nobody can name, older than
 * the present runtime, which began at `start`. Goes from folder to folder, so that it holds one listing at a time.
 */
export async function removePartials(
  folder: string,
  { start, now = presentMoment }: { readonly start: Moment; readonly now?: () => Moment },
): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await removePartials(path, { start, now });
    else if (PARTIAL.test(entry.name) && isOlder((await stat(path)).mtimeMs, { start, now: now() })) {
      await rm(path, { force: true });
    }
  }
}

/**
 * Whether a file was written before the start. If the clock was set back since, new files have times from before it: so it must
 * also be older than the time that has passed. One that looks too young stays, and harms nobody.
 */
function isOlder(mtimeMs: number, { start, now }: { readonly start: Moment; readonly now: Moment }): boolean {
  return mtimeMs < start.wall && now.wall - mtimeMs > now.steady - start.steady;
}
