import { lstat, readdir, readlink } from "node:fs/promises";

/** What is in the machine's `/`, by name, to be rebuilt around a private `/pfs`. */
export interface RootEntries {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  readonly links: readonly { readonly name: string; readonly target: string }[];
}

// These two are made anew for every command.
const OWN = new Set(["pfs", "proc"]);

export async function readRootEntries(): Promise<RootEntries> {
  const folders: string[] = [];
  const files: string[] = [];
  const links: { name: string; target: string }[] = [];
  for (const name of await readdir("/")) {
    if (OWN.has(name)) continue;
    const stat = await lstat(`/${name}`);
    if (stat.isSymbolicLink()) links.push({ name, target: await readlink(`/${name}`) });
    else (stat.isDirectory() ? folders : files).push(name);
  }
  return { folders, files, links };
}
