import { DatabaseSync } from "node:sqlite";
import { quoted, type Table, tablesOf } from "./names.ts";

/**
 * Copies a database row by row, each row under the number that it has. VACUUM copies whole, and does not promise the numbers;
 * this takes longer. `copy` is not there yet.
 */
export function copyWithRowids(file: string, copy: string): void {
  const made = new DatabaseSync(copy, {
    enableForeignKeyConstraints: false,
    enableDoubleQuotedStringLiterals: true,
  });
  try {
    const of = (pragma: string) => {
      const old = new DatabaseSync(file, { readOnly: true });
      try {
        return old.prepare(`PRAGMA ${pragma}`).get()?.[pragma];
      } finally {
        old.close();
      }
    };
    // These hold from the first page on.
    made.exec(`PRAGMA encoding = ${quoted(String(of("encoding")), "'")}`);
    made.exec(`PRAGMA page_size = ${Number(of("page_size"))}`);
    made.exec(`PRAGMA auto_vacuum = ${Number(of("auto_vacuum"))}`);
    made.exec(`ATTACH ${quoted(file, "'")} AS old`);
    made.exec("BEGIN");
    copyAll(made, file);
    for (const pragma of ["user_version", "application_id"])
      made.exec(`PRAGMA ${pragma} = ${Number(of(pragma))}`);
    made.exec("COMMIT");
    made.exec("DETACH old");
  } finally {
    made.close();
  }
}

function copyAll(made: DatabaseSync, file: string): void {
  const entries = made
    .prepare("SELECT type, name, sql FROM old.sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
    .all();
  const isOwn = (name: unknown): boolean => String(name).startsWith("sqlite_");
  for (const { type, name, sql } of entries) if (type === "table" && !isOwn(name)) made.exec(String(sql));
  // Makes the tables of its findings, if the database has them.
  if (entries.some(({ name }) => String(name).startsWith("sqlite_stat")))
    made.exec("ANALYZE main.sqlite_schema");
  const old = new DatabaseSync(file, { readOnly: true });
  try {
    const tables = tablesOf(old);
    // Those of SQLite itself last: it writes to them as rows come.
    for (const table of tables.filter(({ name }) => !isOwn(name))) copyRows(made, table);
    for (const table of tables.filter(({ name }) => isOwn(name))) {
      made.exec(`DELETE FROM main.${quoted(table.name)}`);
      copyRows(made, table);
    }
  } finally {
    old.close();
  }
  for (const { type, sql } of entries) if (type !== "table") made.exec(String(sql));
}

function copyRows(made: DatabaseSync, { name, columns, rowid, key }: Table): void {
  const numbered =
    rowid !== undefined && key === undefined ? [rowid, ...columns.map(quotedName)] : columns.map(quotedName);
  const list = numbered.join(", ");
  made.exec(`INSERT INTO main.${quoted(name)} (${list}) SELECT ${list} FROM old.${quoted(name)}`);
}

function quotedName(name: string): string {
  return quoted(name);
}
