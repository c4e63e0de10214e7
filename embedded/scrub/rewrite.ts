import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { copyWithRowids, differenceBetween, quoted } from "./difference.ts";

/**
 * Writing a database anew, so that nothing is left in it of rows that were deleted. A copy is made that has the rows alone,
 * and takes the place of the file. A crash at any step leaves the old file whole or the new one, and perhaps a copy, which the
 * next start removes:
 *
 * 1. The log (`-wal`) is written back into the file, and goes. Otherwise a crash right after the rename would leave the old
 *    log beside the new file, and SQLite would apply it.
 * 2. The copy is made: by VACUUM INTO, which leaves out what is free.
 * 3. The copy is compared with the file. VACUUM may number the rows of a table anew that has no INTEGER PRIMARY KEY, and such
 *    numbers are stored elsewhere, as by a sweep. If it did, the rows are copied once more, each with its number.
 * 4. What stands in the copy for the debt is settled: it comes into force with the rename.
 * 5. The copy is flushed, takes the file's name, and the folder is flushed.
 *
 * Nobody else may have the file open: then its log does not go, and it is left as it is.
 */

/** What a copy is called beside its file. No database of the runtime ends in this. */
const COPY = ".scrub";

/** What SQLite may leave beside a database. */
const BESIDE = ["", "-wal", "-shm", "-journal"] as const;

/** The steps of a rewrite, each told when it is done; tests stop there. */
export type RewriteStep = "log gone" | "copied" | "compared" | "settled" | "flushed" | "renamed" | "durable";

export interface RewriteOptions {
  /** Changes what stands for the debt, in the copy. */
  readonly settle: (copy: DatabaseSync) => void;
  /** Makes the copy of the database at a path, which is not there yet. */
  readonly vacuum?: (database: DatabaseSync, copy: string) => void;
  readonly onStep?: (step: RewriteStep) => void;
}

/** Sizes of a file before and after; bytes. */
export interface Rewritten {
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/** Opens a database of the runtime: as it is, whatever its schema holds. */
function openDatabase(file: string): DatabaseSync {
  return new DatabaseSync(file, {
    enableForeignKeyConstraints: false,
    enableDoubleQuotedStringLiterals: true,
  });
}

/** Whether a file name is that of a copy, or of what SQLite leaves beside one. */
export function isCopy(name: string): boolean {
  return BESIDE.some((ending) => name.endsWith(`.sqlite${COPY}${ending}`));
}

/** Writes a database anew. Throws if it can't be done; the file is then as it was. */
export function rewrite(file: string, options: RewriteOptions): Rewritten {
  const { vacuum = vacuumInto, settle, onStep = () => {} } = options;
  const copy = `${file}${COPY}`;
  remove(copy);
  let before: Stats;
  try {
    const mode = writeLogBack(file);
    before = statSync(file);
    onStep("log gone");
    makeCopy(file, copy, { vacuum, onStep });
    const made = openDatabase(copy);
    try {
      settle(made);
      // As the runtime had it; it sets its own mode again, too.
      made.exec(`PRAGMA journal_mode = ${mode === "wal" ? "wal" : "delete"}`);
    } finally {
      made.close();
    }
    mustHaveNoLog(copy);
    onStep("settled");
    chmodSync(copy, before.mode & 0o7777);
    const { uid, gid } = statSync(copy);
    if (uid !== before.uid || gid !== before.gid) chownSync(copy, before.uid, before.gid);
    flush(copy);
    onStep("flushed");
    mustHaveNoLog(file);
    renameSync(copy, file);
    onStep("renamed");
    flush(dirname(file));
    onStep("durable");
  } catch (error) {
    remove(copy);
    throw error;
  }
  return { bytesBefore: before.size, bytesAfter: statSync(file).size };
}

/** Writes the log back into the file, upon which the log goes. Returns the journal mode of the database. */
function writeLogBack(file: string): string {
  const database = openDatabase(file);
  let mode: string;
  try {
    mode = String(database.prepare("PRAGMA journal_mode").get()?.journal_mode);
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    // The last one that closes a database removes its log.
    database.close();
  }
  mustHaveNoLog(file);
  return mode;
}

function mustHaveNoLog(file: string): void {
  if (["-wal", "-journal"].some((ending) => existsSync(file + ending))) {
    throw new Error("its log does not go: it is in use");
  }
}

function makeCopy(
  file: string,
  copy: string,
  { vacuum, onStep }: Required<Pick<RewriteOptions, "vacuum" | "onStep">>,
): void {
  const database = openDatabase(file);
  try {
    vacuum(database, copy);
    onStep("copied");
    if (differenceBetween(database, copy) !== undefined) {
      remove(copy);
      copyWithRowids(file, copy);
      const difference = differenceBetween(database, copy);
      if (difference !== undefined) throw new Error(`the copy differs from it: ${difference}`);
    }
    onStep("compared");
  } finally {
    database.close();
  }
}

function vacuumInto(database: DatabaseSync, copy: string): void {
  database.exec(`VACUUM INTO ${quoted(copy, "'")}`);
}

/** Removes a copy, and what SQLite left beside it. */
function remove(copy: string): void {
  for (const ending of BESIDE) rmSync(copy + ending, { force: true });
}

/** Makes what a file has, or which names a folder has, outlast a crash of the machine. */
function flush(path: string): void {
  const opened = openSync(path, "r");
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}
