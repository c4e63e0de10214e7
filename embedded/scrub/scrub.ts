import { existsSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import type { ScrubState } from "../../protocol/admin.ts";
import { withDatabase } from "../data/database.ts";
import { removeKeptLog } from "../data/kept-log.ts";
import { HostError } from "../host-error.ts";
import { isCopy, type RewriteOptions, type RewriteStep, rewrite } from "./rewrite.ts";

/**
 * The *scrub*: databases of objects that owe it are written anew, so that what was erased is in no file any more. Rows that
 * are deleted stay in free pages of a database's file; so an object that erases writes down that it owes a rewrite, in the same
 * transaction (worker/objects/rewrite.ts). The host pays while the runtime does not run: at each start, and when it is asked to.
 *
 * The catalogue has no debts of its own: it is written anew before the first that pays, since it repeats what objects tell
 * it, such as the reason of a job. A crash in between then leaves a debt, by which it is written anew again.
 *
 * What can't be written anew stays as it is, with its debt, and keeps nothing from running: a full disk must not keep a gateway from
 * starting.
 */

/** Which databases are written anew: those whose debts are due, all with a debt, or all. */
export type ScrubExtent = "due" | "owed" | "all";

export interface ScrubOptions {
  /** The folder of Durable Objects and D1, in the data folder. The caller has the data folder, and no runtime runs on it. */
  readonly stateDir: string;
  readonly extent: ScrubExtent;
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly onStep?: (step: RewriteStep, file: string) => void;
  readonly vacuum?: RewriteOptions["vacuum"];
}

/** What came of a scrub. The debts of databases that could not be written anew stand. */
export type Scrubbed = Omit<ScrubState, "id" | "state">;

/** A row of the table `rewrite`. */
interface Debt {
  /** Until then rows may come to go that named what was erased. */
  readonly until: number;
  readonly paid: boolean;
}

/** Files of the runtime's own that are no database of an object. */
const NO_OBJECT = "metadata.sqlite";

/** The databases that are to be written anew. Removes what a crash left of copies. Opens each, for less than a millisecond. */
function findOwing({ stateDir, extent, now }: Pick<ScrubOptions, "stateDir" | "extent" | "now">): string[] {
  const objects = databasesIn(join(stateDir, "do"));
  const catalogue = databasesIn(join(stateDir, "d1"));
  const owing = objects.filter((file) => extent === "all" || isOwing(debtOf(file), { extent, now }));
  return owing.length === 0 && extent !== "all" ? [] : [...catalogue, ...owing];
}

/** Writes databases anew that owe it. Holds the thread meanwhile, for as long as it takes to read and write them. */
export function scrub(options: ScrubOptions): Scrubbed {
  const { stateDir, now } = options;
  const catalogue = join(stateDir, "d1");
  const done: Scrubbed = { rewritten: 0, bytesBefore: 0, bytesAfter: 0, failed: [] };
  const owing = findOwing(options);
  // Lines of the log may name what was erased. First: a crash in between leaves the debts, by which it is removed again.
  if (owing.length > 0) removeKeptLog(dirname(stateDir));
  for (const file of owing) {
    try {
      const { bytesBefore, bytesAfter } = rewrite(file, {
        settle: (copy) => settle(copy, now),
        ...(options.vacuum && { vacuum: options.vacuum }),
        onStep: (step) => options.onStep?.(step, file),
      });
      done.rewritten++;
      done.bytesBefore += bytesBefore;
      done.bytesAfter += bytesAfter;
    } catch (error) {
      done.failed.push({ file: file.slice(stateDir.length + 1), message: String((error as Error).message) });
      // What it repeats may be in there: the debts stand until it is written anew, too.
      if (file.startsWith(catalogue)) return done;
    }
  }
  return done;
}

/** The databases in the folders of a folder, without what a crash left of copies: that is removed. */
function databasesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const folders = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.flatMap(({ name }) => {
    const within = join(folder, name);
    const names = readdirSync(within);
    for (const left of names.filter(isCopy)) rmSync(join(within, left), { force: true });
    const isObject = (file: string) => file.endsWith(".sqlite") && file !== NO_OBJECT;
    return names.filter(isObject).map((file) => join(within, file));
  });
}

function isOwing(debt: Debt | undefined, { extent, now }: Pick<ScrubOptions, "extent" | "now">): boolean {
  return debt !== undefined && (extent === "owed" || !debt.paid || debt.until <= now);
}

/** Undefined also of a file that is no database or a damaged one: the object says so when it is asked. */
function debtOf(file: string): Debt | undefined {
  try {
    return look(file, readDebt);
  } catch {
    return undefined;
  }
}

/**
 * Reads from a database that nobody has open, and writes nothing: to write its log back would flush each database that was in
 * use when the runtime ended, at every start. A file without a log is all there is of its database, so SQLite need not look
 * for one. What it needs for a log, an index beside it (`-shm`), is made anew whenever it is missing.
 */
function look<T>(file: string, read: (database: DatabaseSync) => T): T {
  const hasLog = existsSync(`${file}-wal`);
  const url = pathToFileURL(file);
  if (!hasLog) url.searchParams.set("immutable", "1");
  const index = `${file}-shm`;
  rmSync(index, { force: true });
  try {
    return withDatabase(url, { readOnly: true }, read);
  } finally {
    rmSync(index, { force: true });
  }
}

function readDebt(database: DatabaseSync): Debt | undefined {
  const hasTable = database
    .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'rewrite'")
    .get();
  const row = hasTable && database.prepare("SELECT * FROM rewrite").get();
  return row && { until: Number(row.until), paid: Number(row.paid) === 1 };
}

/** In the copy: the debt is paid, and stands on until its time is over. */
function settle(copy: DatabaseSync, now: number): void {
  const debt = readDebt(copy);
  if (!debt) return;
  copy.exec(debt.until <= now ? "DELETE FROM rewrite" : "UPDATE rewrite SET paid = 1");
}

type Task = Pick<ScrubOptions, "stateDir" | "extent" | "now">;

/** By this a thread knows that it was started here. */
const MARK = "sluice-scrub";

/**
 * A scrub on a thread of its own, so that this one goes on: it answers clients and hears signals. The thread is started only if
 * there is something to do. `signal`: the scrub is given up, at any step, as by a crash. Undefined: nothing was owed.
 */
export async function scrubApart(
  task: Task,
  { signal }: { signal?: AbortSignal } = {},
): Promise<Scrubbed | undefined> {
  if (signal?.aborted) throw new HostError("the scrub was given up");
  if (findOwing(task).length === 0) return undefined;
  const thread = new Worker(import.meta.filename, { workerData: { mark: MARK, task } });
  const giveUp = (): void => void thread.terminate();
  signal?.addEventListener("abort", giveUp);
  try {
    return await new Promise<Scrubbed>((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
      thread.once("exit", () => reject(new HostError("the scrub was given up")));
    });
  } finally {
    signal?.removeEventListener("abort", giveUp);
  }
}

if (!isMainThread && workerData?.mark === MARK) parentPort?.postMessage(scrub(workerData.task));
