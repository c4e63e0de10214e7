import { chmodSync, chownSync, existsSync, renameSync, rmSync, type Stats, statSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { withDatabase } from "../data/database.ts";
import { flush } from "../data/flush.ts";

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

/** A database of the runtime is opened as it is, whatever its schema holds. */
const AS_IT_IS = { enableForeignKeyConstraints: false, enableDoubleQuotedStringLiterals: true };

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
    withDatabase(copy, AS_IT_IS, (made) => {
      settle(made);
      // As the runtime had it; it sets its own mode again, too.
      made.exec(`PRAGMA journal_mode = ${mode === "wal" ? "wal" : "delete"}`);
    });
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
  const mode = withDatabase(file, AS_IT_IS, (database) => {
    const before = database.prepare("PRAGMA journal_mode").get()?.journal_mode;
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return String(before);
  });
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
  withDatabase(file, AS_IT_IS, (database) => {
    vacuum(database, copy);
    onStep("copied");
    if (differenceBetween(database, copy) !== undefined) {
      remove(copy);
      copyWithRowids(database, { file, copy });
      const difference = differenceBetween(database, copy);
      if (difference !== undefined) throw new Error(`the copy differs from it: ${difference}`);
    }
    onStep("compared");
  });
}

function vacuumInto(database: DatabaseSync, copy: string): void {
  database.exec(`VACUUM INTO ${quoted(copy, "'")}`);
}

/** Removes a copy, and what SQLite left beside it. */
function remove(copy: string): void {
  for (const ending of BESIDE) rmSync(copy + ending, { force: true });
}

/** What a database is beside its rows, and a copy must be, too. */
const PROPERTIES = ["page_size", "user_version", "application_id", "encoding", "auto_vacuum"] as const;

/**
 * What a copy of a database has otherwise: its properties, its schema, its rows, and the number of each row; undefined if all
 * is the same. Takes as much memory as a few rows.
 */
function differenceBetween(database: DatabaseSync, copy: string): string | undefined {
  database.exec(`ATTACH ${quoted(copy, "'")} AS copy`);
  try {
    return propertyThatDiffers(database) ?? schemaThatDiffers(database) ?? tableThatDiffers(database);
  } finally {
    database.exec("DETACH copy");
  }
}

function propertyThatDiffers(database: DatabaseSync): string | undefined {
  return PROPERTIES.find((property) => {
    const of = (schema: string) => database.prepare(`PRAGMA ${schema}.${property}`).get()?.[property];
    return of("main") !== of("copy");
  });
}

function schemaThatDiffers(database: DatabaseSync): string | undefined {
  const entries = (schema: string) => `SELECT type, name, tbl_name, sql FROM ${schema}.sqlite_schema`;
  const differs = ([one, other]: readonly [string, string]) =>
    database.prepare(`${entries(one)} EXCEPT ${entries(other)}`).get() !== undefined;
  return differs(["main", "copy"]) || differs(["copy", "main"]) ? "the schema" : undefined;
}

function tableThatDiffers(database: DatabaseSync): string | undefined {
  return tablesOf(database).find((table) => hasOtherRows(database, table))?.name;
}

/** Of rows that have numbers, each has the same number and the same values. Of others there are as many. */
function hasOtherRows(database: DatabaseSync, { name, columns, rowid }: Table): boolean {
  const table = quoted(name);
  const count = (schema: string) => database.prepare(`SELECT count(*) AS n FROM ${schema}.${table}`).get()?.n;
  if (count("main") !== count("copy")) return true;
  if (rowid === undefined) return false;
  const others = columns.map((column) => `copied.${quoted(column)} IS NOT old.${quoted(column)}`);
  const differs = database.prepare(
    `SELECT 1 FROM main.${table} AS old LEFT JOIN copy.${table} AS copied ON copied.${rowid} = old.${rowid}
     WHERE copied.${rowid} IS NULL OR ${others.join(" OR ")} LIMIT 1`,
  );
  return differs.get() !== undefined;
}

/** A name as a part of SQL, or a text. */
function quoted(text: string, mark: '"' | "'" = '"'): string {
  return mark + text.replaceAll(mark, mark + mark) + mark;
}

/** A table of a database that has rows of its own. */
interface Table {
  readonly name: string;
  /** Its stored columns. */
  readonly columns: readonly string[];
  /** What names the number of a row; undefined: the rows have none (WITHOUT ROWID). */
  readonly rowid: string | undefined;
  /** The column that is the number of a row (INTEGER PRIMARY KEY); undefined: none is. */
  readonly key: string | undefined;
}

/** The tables of a database, those of SQLite itself too, but for the schema. */
function tablesOf(database: DatabaseSync): Table[] {
  const listed = database
    .prepare("SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' ORDER BY name")
    .all();
  return listed.flatMap(({ name, type, wr }) => {
    const table = String(name);
    if (table === "sqlite_schema" || type === "view") return [];
    if (type !== "table") throw new Error(`it has a table that is ${type}: ${table}`);
    const found = database
      .prepare("SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden = 0")
      .all(table);
    const columns = found.map((column) => String(column.name));
    const keys = found.filter(({ pk }) => Number(pk) > 0);
    const [first] = keys;
    const isKey = wr === 0 && keys.length === 1 && String(first?.type).toUpperCase() === "INTEGER";
    return {
      name: table,
      columns,
      rowid: wr === 0 ? rowidBeside(columns) : undefined,
      key: isKey ? String(first?.name) : undefined,
    };
  });
}

/** A name of a row's number that no column has. */
function rowidBeside(columns: readonly string[]): string {
  const taken = new Set(columns.map((column) => column.toLowerCase()));
  const free = ["rowid", "_rowid_", "oid"].find((name) => !taken.has(name));
  if (free === undefined) throw new Error("it has a table whose rows' numbers can't be named");
  return free;
}

/**
 * Copies a database row by row, each row under the number that it has. VACUUM copies whole, and does not promise the numbers;
 * this takes longer. `copy` is not there yet.
 */
function copyWithRowids(database: DatabaseSync, { file, copy }: { file: string; copy: string }): void {
  const of = (pragma: string) => database.prepare(`PRAGMA ${pragma}`).get()?.[pragma];
  withDatabase(copy, AS_IT_IS, (made) => {
    // These hold from the first page on.
    made.exec(`PRAGMA encoding = ${quoted(String(of("encoding")), "'")}`);
    made.exec(`PRAGMA page_size = ${Number(of("page_size"))}`);
    made.exec(`PRAGMA auto_vacuum = ${Number(of("auto_vacuum"))}`);
    made.exec(`ATTACH ${quoted(file, "'")} AS old`);
    made.exec("BEGIN");
    copyAll(made, tablesOf(database));
    for (const pragma of ["user_version", "application_id"])
      made.exec(`PRAGMA ${pragma} = ${Number(of(pragma))}`);
    made.exec("COMMIT");
    made.exec("DETACH old");
  });
}

function copyAll(made: DatabaseSync, tables: readonly Table[]): void {
  const entries = made
    .prepare("SELECT type, name, sql FROM old.sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
    .all();
  const isOwn = (name: unknown): boolean => String(name).startsWith("sqlite_");
  for (const { type, name, sql } of entries) if (type === "table" && !isOwn(name)) made.exec(String(sql));
  // Makes the tables of its findings, if the database has them.
  if (entries.some(({ name }) => String(name).startsWith("sqlite_stat")))
    made.exec("ANALYZE main.sqlite_schema");
  // Those of SQLite itself last: it writes to them as rows come.
  for (const table of tables.filter(({ name }) => !isOwn(name))) copyRows(made, table);
  for (const table of tables.filter(({ name }) => isOwn(name))) {
    made.exec(`DELETE FROM main.${quoted(table.name)}`);
    copyRows(made, table);
  }
  for (const { type, sql } of entries) if (type !== "table") made.exec(String(sql));
}

function copyRows(made: DatabaseSync, { name, columns, rowid, key }: Table): void {
  const number = rowid !== undefined && key === undefined ? [rowid] : [];
  const list = [...number, ...columns.map((column) => quoted(column))].join(", ");
  made.exec(`INSERT INTO main.${quoted(name)} (${list}) SELECT ${list} FROM old.${quoted(name)}`);
}
