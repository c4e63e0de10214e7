import { constants } from "node:fs";
import { join } from "node:path";
import { isThere } from "./system-calls.ts";

// Folders of administrators' tools, which an ordinary user's PATH may lack.
const SYSTEM_FOLDERS = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/** The absolute path of a program, or undefined if this machine lacks it. */
export async function findTool(name: string): Promise<string | undefined> {
  const folders = (process.env.PATH ?? "").split(":").filter((folder) => folder.startsWith("/"));
  for (const folder of [...folders, ...SYSTEM_FOLDERS]) {
    const path = join(folder, name);
    if (await isThere(path, constants.X_OK)) return path;
  }
  return undefined;
}
