import type { DatabaseSync } from "node:sqlite";

/** A name as a part of SQL, or a text. */
export function quoted(text: string, mark: '"' | "'" = '"'): string {
  return mark + text.replaceAll(mark, mark + mark) + mark;
}

/** A table of a database that has rows of its own. */
export interface Table {
  readonly name: string;
  /** Its stored columns. */
  readonly columns: readonly string[];
  /** What names the number of a row; undefined: the rows have none (WITHOUT ROWID). */
  readonly rowid: string | undefined;
  /** The column that is the number of a row (INTEGER PRIMARY KEY); undefined: none is. */
  readonly key: string | undefined;
}

/** The tables of a database, those of SQLite itself too, but for the schema. */
export function tablesOf(database: DatabaseSync): Table[] {
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
