import { createWriteStream, mkdtempSync, rmSync, type Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { directoryPrefix } from "../../gateway/objects.ts";
import { CliError, UsageError } from "../../output/failure.ts";
import { atEnd } from "../../stop-requests.ts";
import { checkTarget, type LocalEntry, walkFolder } from "../local-tree.ts";

export interface LocalSources {
  /** Paths of this machine. */
  readonly sources: readonly string[];
  /** Path in the bucket. */
  readonly to: string;
  readonly recursive: boolean;
  readonly skipSpecial: boolean;
}

/** What is to be put. Throws for a source that is not there before anything is read. */
export async function localEntries(asked: LocalSources): Promise<AsyncIterable<LocalEntry>> {
  const { sources, to, recursive } = asked;
  const several = sources.length > 1;
  if (several) checkFolder(to, sources);
  const found: { from: string; stats: Stats }[] = [];
  for (const from of sources) {
    const stats = await localStats(from);
    if (stats.isDirectory() && !recursive) throw new UsageError(`${from} is a folder: copy it with -r`);
    if (!stats.isDirectory() && !stats.isFile()) {
      throw new CliError(`${from} is neither a file nor a folder: '-' stands for what comes on stdin`);
    }
    if (stats.isFile() && recursive && !several) {
      throw new UsageError(`${from} is a file: copy it without -r`);
    }
    found.push({ from, stats });
  }
  return entriesOf(found, { ...asked, several });
}

async function* entriesOf(
  found: readonly { from: string; stats: Stats }[],
  { to, several, skipSpecial }: LocalSources & { several: boolean },
): AsyncGenerator<LocalEntry> {
  for (const { from, stats } of found) {
    // Also of `.`, which has no name of its own.
    const name = basename(resolve(from));
    if (stats.isDirectory()) {
      const into = several ? `${to}${name}/` : directoryPrefix(to);
      yield* walkFolder(from, { into, skipSpecial });
    } else {
      const target = to === "" || to.endsWith("/") ? to + name : to;
      checkTarget(from, target);
      yield { source: from, target, size: stats.size };
    }
  }
}

/** Several sources go to a folder, each by its own name. */
function checkFolder(to: string, sources: readonly string[]): void {
  if (to !== "" && !to.endsWith("/")) {
    throw new UsageError(`several sources go to a folder: end the path '${to}' in /`);
  }
  const names = new Map<string, string>();
  for (const source of sources) {
    const name = basename(resolve(source));
    const other = names.get(name);
    if (other !== undefined) throw new UsageError(`${other} and ${source} would both become '${to}${name}'`);
    names.set(name, source);
  }
}

export async function localStats(path: string): Promise<Stats> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new CliError(`${path} does not exist`, { code: "ENOENT" });
  }
}

/**
 * What comes on stdin, as a file: its size and digest are told before its bytes are sent, and it may be longer than memory.
 * The file is removed when the command ends.
 */
export async function stdinFile(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-stdin-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "stdin");
  await pipeline(process.stdin, createWriteStream(file, { mode: 0o600 }));
  return file;
}
