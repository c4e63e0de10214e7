import { chmod } from "node:fs/promises";
import { errorCode } from "../lib/fault.ts";
import type { RawPath } from "./raw-path.ts";

/**
 * Does `work`. If permission is denied, gives `path` the mode and does it once more. A command may take its own
 * files' permissions away (`umask 777`, an unpacked archive); the agent, of the same user, gives them back. `path`
 * must be known to be no link, because chmod follows links.
 */
export async function permitted<T>(
  { path, mode }: { path: RawPath; mode: number },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (errorCode(error) !== "EACCES") throw error;
    await chmod(path, mode);
    return work();
  }
}
