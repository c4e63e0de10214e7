import { lstat, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, normalize } from "node:path";
import { errorCode } from "../../lib/fault.ts";
import { isWithin } from "../../lib/system-calls.ts";
import type { MountedSecret } from "../executor.ts";
import { type PlannedSecret, refuseUnmountable, Unmountable } from "../mounted-secrets.ts";
import { type FolderEntries, readEntries } from "./machine.ts";

/** How secrets are shown in the machine's own root, without anything being made in it. */
export interface SecretMounts {
  /** Folders of the machine that get a new folder in them: each is replaced by one in memory with the same entries. Outer ones first. */
  readonly opened: readonly OpenedFolder[];
  readonly folders: readonly SecretFolder[];
}

export interface OpenedFolder {
  readonly path: string;
  /** Permission bits, such as 0o755. */
  readonly mode: number;
  readonly entries: FolderEntries;
}

/** A folder in memory that holds a secret. Links in its path are resolved. */
export interface SecretFolder {
  readonly path: string;
  readonly files: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

const NOTHING: SecretMounts = { opened: [], folders: [] };

/** Each file takes a descriptor while the command starts. */
const MAX_FILES = 256;
/** Each entry of an opened folder is a mount of its own. */
const MAX_OPENED_ENTRIES = 500;

interface Machine {
  /** The node's data folder, absolute and without links. */
  readonly dataDir: string;
  /** Folders that commands do not see, as in HiddenPaths. */
  readonly hidden: readonly string[];
}

/** Plans where each secret goes on this machine. Throws Unmountable if one can't be shown. */
export async function planSecretMounts(
  secrets: readonly MountedSecret[],
  { dataDir, hidden }: Machine,
): Promise<SecretMounts> {
  if (secrets.length === 0) return NOTHING;
  const spots = await Promise.all(secrets.map((secret) => findSpot(secret, hidden)));
  refuseUnmountable(spots);
  let files = 0;
  for (const { mounted, path } of spots) {
    if (isWithin(path, dataDir) || isWithin(dataDir, path)) {
      throw new Unmountable(mounted, "the runner's data folder is there");
    }
    files += mounted.secret.size;
    if (files > MAX_FILES) {
      throw new Unmountable(mounted, `the secrets of a pipeline may have ${MAX_FILES} keys in all`);
    }
  }
  const folders = spots.map(({ mounted, path }) => ({
    ...{ path, files: [...mounted.secret].map(([name, bytes]) => ({ name, bytes })) },
  }));
  return { opened: await openFolders(spots), folders };
}

/** Its path has its links resolved. */
interface Spot extends PlannedSecret {
  /** The folder of the machine that has to be opened for it; undefined if the path is there, is to be in the root, or in a folder that is hidden: that one is empty. */
  readonly open: string | undefined;
}

async function findSpot(mounted: MountedSecret, hidden: readonly string[]): Promise<Spot> {
  const wanted = normalize(`${mounted.mountPath}/`).slice(0, -1);
  const { there, missing } = await deepestFolder(mounted, wanted);
  const path = join(there, ...missing);
  const isHidden = hidden.some((folder) => isWithin(there, folder));
  const open = missing.length === 0 || there === "/" || isHidden ? undefined : there;
  return { mounted, path, open };
}

/** The part of a path that is there, links resolved, and the names that are not. */
async function deepestFolder(
  mounted: MountedSecret,
  wanted: string,
): Promise<{ there: string; missing: string[] }> {
  const missing: string[] = [];
  for (let path = wanted; path !== "" && path !== "/"; path = dirname(path)) {
    try {
      const there = await realpath(path);
      if (!(await stat(there)).isDirectory()) throw new Unmountable(mounted, `${path} is a file here`);
      return { there, missing };
    } catch (error) {
      if (error instanceof Unmountable) throw error;
      if (!["ENOENT", "ENOTDIR"].includes(errorCode(error) ?? "")) {
        throw new Unmountable(mounted, `${path} can't be looked at here (${errorCode(error)})`);
      }
      const entry = await lstat(path).catch(() => undefined);
      if (entry?.isSymbolicLink())
        throw new Unmountable(mounted, `${path} is a link here that leads nowhere`);
      missing.unshift(basename(path));
    }
  }
  return { there: "/", missing };
}

async function openFolders(spots: readonly Spot[]): Promise<OpenedFolder[]> {
  const opened = new Map<string, OpenedFolder>();
  for (const { mounted, open } of spots) {
    if (open === undefined || opened.has(open)) continue;
    const entries = await readEntries(open, new Set()).catch((error: unknown) => {
      throw new Unmountable(mounted, `what is in ${open} can't be listed (${errorCode(error)})`);
    });
    if (entries.folders.length + entries.files.length + entries.links.length > MAX_OPENED_ENTRIES) {
      throw new Unmountable(
        mounted,
        `${open} holds more than ${MAX_OPENED_ENTRIES} entries; take a path in a folder of its own, such as /secrets/…`,
      );
    }
    opened.set(open, { path: open, mode: (await stat(open)).mode & 0o7777, entries });
  }
  return [...opened.values()].sort((a, b) => a.path.length - b.path.length);
}
