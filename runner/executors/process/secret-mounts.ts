import { lstat, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, normalize } from "node:path";
import { errorCode } from "../../lib/fault.ts";
import type { MountedSecret } from "../executor.ts";
import { type FolderEntries, isWithin, readEntries } from "./machine.ts";

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

export type PlannedMounts =
  | { readonly ok: true; readonly mounts: SecretMounts }
  | { readonly ok: false; readonly reason: string };

const NOTHING: SecretMounts = { opened: [], folders: [] };

/** The kernel's own, and what holds the datum. */
const RESERVED = ["/proc", "/sys", "/dev", "/pfs"];
/** Each file takes a descriptor while the command starts. */
const MAX_FILES = 256;
/** All bytes go through the memory of three processes. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Each entry of an opened folder is a mount of its own. */
const MAX_OPENED_ENTRIES = 500;

interface Machine {
  /** The node's data folder, absolute and without links. */
  readonly dataDir: string;
  /** Folders that commands do not see, as in HiddenPaths. */
  readonly hidden: readonly string[];
}

/** Plans where each secret goes on this machine, or says why one can't be shown. */
export async function planSecretMounts(
  secrets: readonly MountedSecret[],
  { dataDir, hidden }: Machine,
): Promise<PlannedMounts> {
  if (secrets.length === 0) return { ok: true, mounts: NOTHING };
  try {
    const spots = await Promise.all(secrets.map((secret) => findSpot(secret, hidden)));
    refuseReserved(spots, dataDir);
    refuseNested(spots);
    refuseTooMany(spots);
    const mounts = { opened: await openFolders(spots), folders: spots.map(folderOf) };
    return { ok: true, mounts };
  } catch (error) {
    if (error instanceof Unmountable) return { ok: false, reason: error.message };
    throw error;
  }
}

class Unmountable extends Error {
  constructor({ name, mountPath }: MountedSecret, why: string) {
    super(`secret "${name}" can't be mounted at ${mountPath}: ${why}`);
  }
}

interface Spot {
  readonly mounted: MountedSecret;
  /** The mount path, with links resolved. */
  readonly path: string;
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
      if (await isLink(path)) throw new Unmountable(mounted, `${path} is a link here that leads nowhere`);
      missing.unshift(basename(path));
    }
  }
  return { there: "/", missing };
}

async function isLink(path: string): Promise<boolean> {
  return lstat(path).then(
    (entry) => entry.isSymbolicLink(),
    () => false,
  );
}

function refuseReserved(spots: readonly Spot[], dataDir: string): void {
  for (const { mounted, path } of spots) {
    if (path === "/") throw new Unmountable(mounted, "it would hide everything else");
    const reserved = RESERVED.find((folder) => isWithin(path, folder));
    if (reserved) throw new Unmountable(mounted, `nothing can be mounted in ${reserved}`);
    if (isWithin(path, dataDir) || isWithin(dataDir, path)) {
      throw new Unmountable(mounted, "the runner's data folder is there");
    }
  }
}

function refuseNested(spots: readonly Spot[]): void {
  for (const inner of spots) {
    const outer = spots.find((spot) => spot !== inner && isWithin(inner.path, spot.path));
    if (outer) throw new Unmountable(inner.mounted, `secret "${outer.mounted.name}" is mounted there`);
  }
}

function refuseTooMany(spots: readonly Spot[]): void {
  let files = 0;
  let bytes = 0;
  for (const { mounted } of spots) {
    files += mounted.secret.size;
    for (const value of mounted.secret.values()) bytes += value.length;
    if (bytes > MAX_BYTES) {
      throw new Unmountable(mounted, `the secrets of a pipeline may hold ${MAX_BYTES} bytes in all`);
    }
    if (files > MAX_FILES) {
      throw new Unmountable(mounted, `the secrets of a pipeline may have ${MAX_FILES} keys in all`);
    }
  }
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

function folderOf({ mounted, path }: Spot): SecretFolder {
  return { path, files: [...mounted.secret].map(([name, bytes]) => ({ name, bytes })) };
}
