import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { HostFlush, type HostFlushed } from "../../protocol/admin.ts";
import type { HostRequest } from "../workerd/runtime.ts";

/**
 * Blobs as a power cut leaves them. workerd's disk service writes them and does not flush: the Worker asks for it here, by name,
 * before anything names a blob that was written, and before it forgets that one is to be deleted. What is asked for while a round
 * of flushes is under way gathers for the next one, so that a folder is flushed once for all that happened in it.
 */

/** Most folders that are remembered. */
const MAX_KNOWN = 50_000;
/** Files that are flushed at a time: as many as Node has threads for. */
const AT_ONCE = 4;
/** How a file system says that it has no room. */
const FULL = new Set(["ENOSPC", "EDQUOT"]);
/** A name that leads out of the folder, or to what no blob is called. */
const NO_BLOB = /(^|\/)(\.|$|\/)/;

/** What is flushed at a time, and resolves with what could not be: why, by its path. */
interface Round {
  readonly written: Set<string>;
  readonly removed: Set<string>;
  readonly failed: PromiseWithResolvers<ReadonlyMap<string, Error>>;
}

export class FlushedBlobs {
  readonly #root: string;
  /** Folders whose own names are on the disk. */
  readonly #known = new Set<string>();
  #next: Round | undefined;
  #isRunning = false;

  /** `root`: the folder that the disk service serves. */
  constructor(root: string) {
    this.#root = root;
  }

  async answer(request: HostRequest): Promise<HostFlushed> {
    try {
      await this.flush(HostFlush.parse(await request.json()));
      return { failure: null };
    } catch (error) {
      const { message, code = "" } = error as NodeJS.ErrnoException;
      return { failure: { message, isFull: FULL.has(code) } };
    }
  }

  /**
   * Resolves when blobs that were written are on the disk with their names, and names that were removed are gone from it. Rejects
   * if one of them is not, whatever became of the others.
   */
  async flush({ written, removed }: HostFlush): Promise<void> {
    const names = [...written, ...removed];
    const bad = names.find((name) => NO_BLOB.test(name));
    if (bad !== undefined) throw new Error(`${bad} is no name of a blob`);
    this.#next ??= { written: new Set(), removed: new Set(), failed: Promise.withResolvers() };
    const round = this.#next;
    for (const name of written) round.written.add(name);
    for (const name of removed) round.removed.add(name);
    if (!this.#isRunning) void this.#run();
    const failed = await round.failed.promise;
    const paths = [...written, ...names.flatMap(foldersOf)];
    for (const path of paths) {
      const error = failed.get(path);
      if (error) throw error;
    }
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#next) {
      const round = this.#next;
      this.#next = undefined;
      round.failed.resolve(await this.#flushRound(round));
    }
    this.#isRunning = false;
  }

  async #flushRound({ written, removed }: Round): Promise<ReadonlyMap<string, Error>> {
    const failed = new Map<string, Error>();
    const flush = (path: string): Promise<void> =>
      this.#flushOne(path).catch((error) => void failed.set(path, error));
    await inParallel([...written], flush);
    const made = [...written].flatMap((name) => this.#unknownFolders(name));
    const folders = new Set([...written, ...removed].map((name) => dirname(name)));
    await inParallel([...new Set([...folders, ...made, ...made.map((folder) => dirname(folder))])], flush);
    // Nothing was written into a folder that is not there, and nothing is left in it.
    for (const folder of folders) if (isAbsent(failed.get(folder))) failed.delete(folder);
    if (this.#known.size > MAX_KNOWN) this.#known.clear();
    for (const folder of made) if (!failed.has(dirname(folder))) this.#known.add(folder);
    return failed;
  }

  /** The folders above a blob whose own names may not be on the disk yet. */
  #unknownFolders(name: string): string[] {
    return foldersOf(name).filter((folder) => folder !== ROOT && !this.#known.has(folder));
  }

  async #flushOne(path: string): Promise<void> {
    const opened = await open(join(this.#root, path), "r");
    try {
      await opened.sync();
    } finally {
      await opened.close();
    }
  }
}

function isAbsent(error: NodeJS.ErrnoException | undefined): boolean {
  return error?.code === "ENOENT";
}

/** What `dirname` says of a path without a slash. */
const ROOT = ".";

/** The folders above a path, from the nearest one on. */
function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    folders.push(folder);
    if (folder === ROOT) return folders;
  }
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const item of left) await work(item);
    }),
  );
}
