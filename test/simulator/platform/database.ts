import { constants, DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

export type Row = Record<string, unknown>;
type Values = readonly SQLInputValue[];

/** The tables that statements look at, write to and make. That there is another table is written to the first of these. */
interface Touched {
  readonly reads: Set<string>;
  readonly writes: Set<string>;
  readonly makes: Set<string>;
}
const ALL_TABLES = "sqlite_master";

/** A statement that is ready to run. */
interface Prepared {
  readonly statement: StatementSync;
  readonly touched: Touched;
}

/** Statements that made tables of a database in which nothing else was, with what they put into them. */
interface Script {
  readonly text: string;
  readonly tables: ReadonlySet<string>;
  readonly rows: readonly { readonly table: string; readonly values: Values }[];
}

/** What tables there are: those of the first `made` scripts. SQLite has those of all of them, and nobody sees the others. */
interface Form {
  readonly scripts: readonly Script[];
  readonly made: number;
}
const NO_TABLES: Form = { scripts: [], made: 0 };

/** How SQLite counts the changes of tables, and how many pages they have. */
interface TablesSize {
  readonly version: number;
  readonly pages: number;
}

/** Rows that somebody saw. */
interface Seen {
  readonly rows: Row[];
  readonly values: Values;
  readonly tables: readonly string[];
  /** In the count of writes. */
  readonly at: number;
}

/** Of a database without any table. */
const EMPTY = new DatabaseSync(":memory:");
/** A database that has more statements than this was asked for texts that never come again. */
const MOST_STATEMENTS = 5_000;

/**
 * Databases that simulations have one after the other. To make the tables of an object and to prepare its statements takes longer
 * than most simulations use them. So a database that is given back keeps both, and is empty for whoever takes it next: that one
 * sees a table only once it has made it, by the same statements.
 */
export class Databases {
  readonly #free: Database[] = [];

  take(): Database {
    return this.#free.pop() ?? new Database();
  }

  giveBack(database: Database): void {
    if (database.empty()) this.#free.push(database);
    else database.close();
  }
}

/** SQLite in memory. */
export class Database {
  readonly #db = new DatabaseSync(":memory:");
  readonly #statements = new Map<string, Prepared>();
  /** Of the statements that SQLite just reads. */
  #touched: Touched | undefined;
  #form = NO_TABLES;
  /** As it was when the transaction began, and each savepoint. */
  #committed = NO_TABLES;
  readonly #savepoints: Form[] = [];
  /** When its tables were made. */
  #made: TablesSize;
  readonly #pageBytes: number;
  #isReusable = true;
  /** In the count of writes: when each table was last written to. */
  readonly #writtenAt = new Map<string, number>();
  #writes = 0;
  /** Rows that were ever written, as SQLite counts them. */
  #changes = 0;
  /** By the text of the query. */
  readonly #seen = new Map<string, Seen>();
  readonly #tables = new Map<string, boolean>();

  constructor() {
    // What is deleted can be given back to the last page, so that one that is emptied is as large as a new one.
    this.#db.exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA recursive_triggers = ON");
    this.#db.setAuthorizer((action, name) => {
      if (this.#touched && name !== null) addTouched(this.#touched, action, name);
      return constants.SQLITE_OK;
    });
    this.#pageBytes = this.#number("page_size");
    this.#made = this.#size();
  }

  /** Runs a statement. */
  run(text: string, values: Values): { readonly rows: Row[]; readonly changes: number } {
    const { statement, touched } = this.#ready(text);
    if (touched.writes.size === 0) return { rows: statement.all(...values) as Row[], changes: 0 };
    const before = this.#changes;
    let rows: Row[];
    try {
      rows = statement.all(...values) as Row[];
    } finally {
      this.#count(touched);
    }
    return { rows, changes: this.#changes - before };
  }

  /** Runs statements without parameters, such as those that make tables. Returns how many rows they wrote. */
  script(text: string): number {
    const before = this.#changes;
    const { scripts, made } = this.#form;
    const next = scripts[made];
    if (next?.text === text) this.#makeAgain(next);
    else this.#make(text);
    if (!this.#db.isTransaction) this.#committed = this.#form;
    return this.#changes - before;
  }

  /** The rows that a query finds: the same ones as before if nothing was written to the tables that they are of. */
  look(text: string, values: Values): readonly Row[] {
    const seen = this.#seen.get(text);
    if (seen && this.#isAsSeen(seen, values)) return seen.rows;
    const { statement, touched } = this.#ready(text);
    const rows = statement.all(...values) as Row[];
    this.#seen.set(text, { rows, values, tables: [...touched.reads], at: this.#writes });
    return rows;
  }

  /** Whether there is a table. */
  has(table: string): boolean {
    const { scripts, made } = this.#form;
    if (made < scripts.length) return scripts.slice(0, made).some(({ tables }) => tables.has(table));
    const known = this.#tables.get(table);
    if (known !== undefined) return known;
    const is =
      this.run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [table]).rows.length > 0;
    this.#tables.set(table, is);
    return is;
  }

  get bytes(): number {
    const { scripts, made } = this.#form;
    if (made === 0 && scripts.length > 0) return this.#pageBytes;
    return this.#number("page_count") * this.#pageBytes;
  }

  /** Begins a transaction, unless one is under way. */
  begin(): void {
    if (!this.#db.isTransaction) this.#control("BEGIN");
  }

  commit(): void {
    if (this.#db.isTransaction) this.#control("COMMIT");
    this.#committed = this.#form;
  }

  rollback(): void {
    if (this.#db.isTransaction) this.#control("ROLLBACK");
    this.#savepoints.length = 0;
    this.#undoneTo(this.#committed);
  }

  /** Begins a transaction in the one that is under way. */
  save(): void {
    this.#control(`SAVEPOINT s${this.#savepoints.length}`);
    this.#savepoints.push(this.#form);
  }

  release(): void {
    this.#savepoints.pop();
    this.#control(`RELEASE s${this.#savepoints.length}`);
  }

  /** Undoes what was written since it was saved. Returns false if all of the transaction was undone before. */
  undo(): boolean {
    const form = this.#savepoints.pop();
    if (!form) return false;
    const name = `s${this.#savepoints.length}`;
    this.#control(`ROLLBACK TO ${name}`);
    this.#control(`RELEASE ${name}`);
    this.#undoneTo(form);
    return true;
  }

  /** Whether what is written now is in no transaction that was begun in the one under way. */
  get isOutermost(): boolean {
    return this.#savepoints.length === 0;
  }

  close(): void {
    this.#db.close();
  }

  /** Makes it as if it were new, for whoever has it next; false: it has become another one than it can be for them. */
  empty(): boolean {
    this.rollback();
    const { scripts, made } = this.#form;
    if (!this.#isReusable || this.#statements.size > MOST_STATEMENTS) return false;
    if (made > 0) {
      if (made < scripts.length) return false;
      this.#control("BEGIN");
      for (const { tables } of scripts) for (const table of tables) this.#control(`DELETE FROM "${table}"`);
      if (this.has("sqlite_sequence")) this.#control("DELETE FROM sqlite_sequence");
      this.#control("COMMIT");
      this.#db.exec("PRAGMA incremental_vacuum");
    }
    const { version, pages } = this.#size();
    if (version !== this.#made.version || pages !== this.#made.pages) return false;
    this.#changes = this.#totalChanges();
    this.#committed = { scripts, made: 0 };
    this.#undoneTo(this.#committed);
    return true;
  }

  /** Tables that SQLite has already are there from now on, with what is in them when they are made. */
  #makeAgain({ tables, rows }: Script): void {
    const { scripts, made } = this.#form;
    for (const { table, values } of rows)
      this.#prepared(`INSERT INTO "${table}" VALUES (${values.map(() => "?").join(", ")})`).statement.run(
        ...values,
      );
    this.#form = { scripts, made: made + 1 };
    this.#count({ ...noTables(), writes: new Set([...tables, ALL_TABLES]) });
  }

  #make(text: string): void {
    this.#beExact();
    const before = this.#number("schema_version");
    const touched = this.#touching(() => this.#db.exec(text));
    this.#count(touched);
    // They may be there already.
    if (this.#number("schema_version") === before) return;
    const written = [...touched.writes].filter((table) => !isOfSqlite(table));
    const isFirst =
      this.#committed.scripts.length === 0 && written.every((table) => touched.makes.has(table));
    this.#isReusable &&= isFirst;
    if (!isFirst) return;
    const rowsOf = (table: string) =>
      (this.#db.prepare(`SELECT * FROM "${table}"`).all() as Record<string, SQLInputValue>[]).map((row) => ({
        table,
        values: Object.values(row),
      }));
    const script: Script = { text, tables: touched.makes, rows: written.flatMap(rowsOf) };
    const { scripts, made } = this.#form;
    this.#form = { scripts: [...scripts, script], made: made + 1 };
    this.#made = this.#size();
  }

  /** A statement, in a database that has the tables which it is about. */
  #ready(text: string): Prepared {
    const { scripts, made } = this.#form;
    if (made === scripts.length) return this.#prepared(text);
    const prepared = this.#prepared(text);
    const { reads, writes } = prepared.touched;
    if (made === 0 && reads.has(ALL_TABLES)) return { ...prepared, statement: EMPTY.prepare(text) };
    const isThere = (table: string) => scripts.slice(0, made).some(({ tables }) => tables.has(table));
    if (![...reads, ...writes].every(isThere)) this.#beExact();
    return prepared;
  }

  /** SQLite gets rid of tables that nobody sees. */
  #beExact(): void {
    const { scripts, made } = this.#form;
    if (made === scripts.length) return;
    if (made > 0) throw new Error("a database whose tables were begun as before is asked for others");
    for (const { tables } of scripts) for (const table of tables) this.#db.exec(`DROP TABLE "${table}"`);
    this.#form = NO_TABLES;
    if (!this.#db.isTransaction) this.#committed = NO_TABLES;
  }

  #prepared(text: string): Prepared {
    const known = this.#statements.get(text);
    if (known) return known;
    let statement: StatementSync | undefined;
    const touched = this.#touching(() => {
      statement = this.#db.prepare(text);
    });
    const prepared = { statement: statement as StatementSync, touched };
    this.#statements.set(text, prepared);
    return prepared;
  }

  #touching(work: () => void): Touched {
    const touched = noTables();
    this.#touched = touched;
    try {
      work();
    } finally {
      this.#touched = undefined;
    }
    return touched;
  }

  #control(text: string): void {
    this.#prepared(text).statement.run();
  }

  #number(pragma: string): number {
    return Object.values(this.#prepared(`PRAGMA ${pragma}`).statement.get() ?? {})[0] as number;
  }

  #size(): TablesSize {
    return { version: this.#number("schema_version"), pages: this.#number("page_count") };
  }

  #totalChanges(): number {
    return this.#prepared("SELECT total_changes() AS n").statement.get()?.n as number;
  }

  /** Counts what statements wrote. */
  #count({ writes }: Touched): void {
    const changes = this.#totalChanges();
    const isTable = writes.has(ALL_TABLES);
    if (changes === this.#changes && !isTable) return;
    this.#changes = changes;
    this.#writes++;
    for (const table of writes) this.#writtenAt.set(table, this.#writes);
    if (isTable) this.#tables.clear();
  }

  #isAsSeen({ values: before, tables, at }: Seen, values: Values): boolean {
    return (
      values.length === before.length &&
      values.every((value, index) => value === before[index]) &&
      tables.every((table) => (this.#writtenAt.get(table) ?? 0) <= at)
    );
  }

  #undoneTo(form: Form): void {
    if (this.#form !== form || !this.#isReusable) this.#tables.clear();
    this.#form = form;
    this.#seen.clear();
  }
}

function noTables(): Touched {
  return { reads: new Set(), writes: new Set(), makes: new Set() };
}

function isOfSqlite(table: string): boolean {
  return table.startsWith("sqlite_");
}

function addTouched({ reads, writes, makes }: Touched, action: number, name: string): void {
  switch (action) {
    case constants.SQLITE_READ:
      reads.add(name);
      break;
    case constants.SQLITE_INSERT:
    case constants.SQLITE_UPDATE:
    case constants.SQLITE_DELETE:
      writes.add(name);
      break;
    case constants.SQLITE_CREATE_TABLE:
      if (!isOfSqlite(name)) makes.add(name);
      break;
    case constants.SQLITE_ALTER_TABLE:
      writes.add(ALL_TABLES);
  }
}
