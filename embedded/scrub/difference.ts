import type { DatabaseSync } from "node:sqlite";
import { quoted, type Table, tablesOf } from "./names.ts";

/** What a database is beside its rows, and a copy must be, too. */
const PROPERTIES = ["page_size", "user_version", "application_id", "encoding", "auto_vacuum"] as const;

/**
 * What a copy of a database has otherwise: its properties, its schema, its rows, and the number of each row; undefined if all
 * is the same. Takes as much memory as a few rows.
 */
export function differenceBetween(database: DatabaseSync, copy: string): string | undefined {
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
