import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";

/** The names in a folder, by kind, so that another folder can show its entries one by one. */
export interface FolderEntries {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  readonly links: readonly { readonly name: string; readonly target: string }[];
}

// Every command gets its own of these.
const OWN = new Set(["dev", "pfs", "proc"]);

/** What is in the machine's `/`, to be rebuilt around a private `/pfs` and `/dev`. */
export function readRootEntries(): Promise<FolderEntries> {
  return readEntries("/", OWN);
}

export async function readEntries(folder: string, except: ReadonlySet<string>): Promise<FolderEntries> {
  const folders: string[] = [];
  const files: string[] = [];
  const links: { name: string; target: string }[] = [];
  for (const name of await readdir(folder)) {
    if (except.has(name)) continue;
    const path = join(folder, name);
    const stat = await lstat(path);
    if (stat.isSymbolicLink()) links.push({ name, target: await readlink(path) });
    else (stat.isDirectory() ? folders : files).push(name);
  }
  return { folders, files, links };
}
