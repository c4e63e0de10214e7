import { copyFileSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";

/**
 * A stamp is as fine as the tick of the kernel, 10 ms at most. So two writes may have the same one, and a file has to be
 * older than that when it is copied: what is written to it later has another stamp.
 */
const TICK_MS = 10;
/** With the pauses between them they take some 5 s: nobody writes to a test's database for so long without a rest. */
const MOST_TRIES = 500;

/** What a test puts in the place of the disk and the clock. */
export interface CopySteps {
  readonly copy?: (from: string, to: string) => void;
  /** Milliseconds since 1970, as the stamps of files are. */
  readonly now?: () => number;
  readonly pause?: () => void;
  readonly mostTries?: number;
}

/**
 * Copies a database with what its log holds, both of the same moment; answers where the copy is. Holds the thread until the
 * files are still, and throws if they never are. There is no copy of a file that is not there.
 */
export function stillCopy(
  file: string,
  folder: string,
  { copy = copyFileSync, now = Date.now, pause = pauseTick, mostTries = MOST_TRIES }: CopySteps = {},
): string {
  const parts = [file, `${file}-wal`].map((from) => ({ from, to: join(folder, basename(from)) }));
  for (let tries = 0; tries < mostTries; tries += 1) {
    if (tries > 0) pause();
    const startedAt = now();
    const before = parts.map(({ from }) => stampOf(from));
    const isSettled = before.every((stamp) => !stamp || stamp.writtenAtMs < startedAt - TICK_MS);
    if (!isSettled) continue;
    const copies = parts.map(({ from, to }, at) => {
      rmSync(to, { force: true });
      return before[at] === undefined || isCopied(copy, { from, to });
    });
    const isSame = parts.every(({ from }, at) => stampOf(from)?.text === before[at]?.text);
    if (isSame && !copies.includes(false)) return join(folder, basename(file));
  }
  throw new Error(`${file} was written to during or just before each of ${mostTries} tries`);
}

/** False if the file went since it was looked at, as a log does at a checkpoint. */
function isCopied(
  copy: (from: string, to: string) => void,
  { from, to }: { from: string; to: string },
): boolean {
  try {
    copy(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** When a file was last written to, and its size; undefined if there is none. */
function stampOf(file: string): { readonly writtenAtMs: number; readonly text: string } | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && { writtenAtMs: Number(found.mtimeMs), text: `${found.mtimeNs} ${found.size}` };
}

function pauseTick(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TICK_MS);
}
