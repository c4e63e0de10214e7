import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type { World } from "./world.ts";

/** How long a write waits for the disk at most; milliseconds. */
const FLUSH_MS = 8;

interface StorageOptions {
  readonly world: World;
  /** A flush failed: whoever wrote is to be reset. */
  readonly broken: () => void;
  /** What is durable says when the alarm rings. */
  readonly alarmChanged: () => void;
  readonly failsToFlush: () => boolean;
}

type Row = Record<string, unknown>;

/** Whoever looks at the rows from outside. */
interface Watcher {
  /** A transaction has ended, or a statement outside of any. It is not on the disk yet. */
  wrote(): void;
  /** All that was written is on the disk. */
  flushed(): void;
  /** What was not on the disk is gone. */
  lost(): void;
}

/**
 * The storage of one object, which outlives its instances. What was written since the last flush is one open transaction of
 * SQLite: a crash undoes it, as a disk does that never got it. An alarm is part of what is written.
 */
export class SimulatedStorage {
  readonly #options: StorageOptions;
  readonly #db = new DatabaseSync(":memory:");
  readonly #statements = new Map<string, StatementSync>();
  readonly #changes: StatementSync;
  readonly #watchers: Watcher[] = [];
  /** What was written and no watcher was told of yet. */
  #isUntold = false;
  #savepoints = 0;
  #isDirty = false;
  #flush: { readonly done: Promise<void>; readonly resolve: () => void } | undefined;
  /** As the instance has it, and as the disk has it. */
  #alarm: number | null = null;
  #durableAlarm: number | null = null;
  /** Since it rang. */
  #isAlarmSetAgain = false;

  constructor(options: StorageOptions) {
    this.#options = options;
    this.#db.exec("PRAGMA recursive_triggers = ON");
    this.#changes = this.#db.prepare("SELECT total_changes() AS changes");
  }

  /** When the alarm rings, as the disk has it. */
  get durableAlarm(): number | null {
    return this.#durableAlarm;
  }

  /** The alarm rings: its handler begins. */
  alarmRings(): void {
    this.#isAlarmSetAgain = false;
  }

  /** The alarm rang and its handler did its work: it is gone, unless the handler set one, be it for the same time. */
  alarmDone(rang: number): void {
    if (this.#isAlarmSetAgain && this.#alarm === rang) {
      if (this.#durableAlarm === rang) this.#options.alarmChanged();
      return;
    }
    if (this.#alarm === rang) this.#alarm = null;
    if (this.#durableAlarm === rang) this.#durableAlarm = null;
  }

  /** What an instance has as `ctx.storage`. `check` throws if the instance has ended. */
  open(
    check: () => void,
  ): Pick<
    DurableObjectStorage,
    "transactionSync" | "sync" | "setAlarm" | "deleteAlarm" | "getAlarm" | "sql"
  > {
    const checked =
      <Args extends unknown[], R>(work: (...args: Args) => R) =>
      (...args: Args): R => {
        check();
        return work(...args);
      };
    const size = () => this.#databaseSize();
    const sql = {
      exec: checked((text: string, ...values: SqlStorageValue[]) => this.#exec(text, values)),
      get databaseSize() {
        return size();
      },
    };
    return {
      sql: sql as unknown as SqlStorage,
      transactionSync: checked(<T>(work: () => T) => this.#transaction(work)),
      sync: checked(() => this.flushed()),
      setAlarm: checked(async (at: number | Date) => this.#setAlarm(Number(at))),
      deleteAlarm: checked(async () => this.#setAlarm(null)),
      getAlarm: checked(async () => this.#alarm),
    };
  }

  /** Resolves when all that was written is on the disk. */
  flushed(): Promise<void> {
    return this.#flush?.done ?? Promise.resolve();
  }

  /** What was not flushed is lost. Whoever waits for it waits for ever: its instance is gone. */
  crash(): void {
    if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
    this.#savepoints = 0;
    this.#isDirty = false;
    this.#alarm = this.#durableAlarm;
    this.#flush = undefined;
    this.#isUntold = false;
    for (const watcher of this.#watchers) watcher.lost();
  }

  /** The simulation is over. */
  close(): void {
    this.#db.close();
  }

  /** Whether there is a table, for whoever looks at the rows from outside. */
  has(table: string): boolean {
    return (
      this.#db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?").get(table) !==
      undefined
    );
  }

  /** Tells what becomes of what is written. */
  watch(watcher: Watcher): void {
    this.#watchers.push(watcher);
  }

  /** For whoever looks at the rows from outside. */
  read<T extends object>(text: string, ...values: SQLInputValue[]): T[] {
    return this.#prepared(text).all(...values) as T[];
  }

  #exec(text: string, values: readonly SqlStorageValue[]) {
    this.#begin();
    if (isRead(text)) return cursorOf(this.#rows(text, values), 0);
    const before = this.#totalChanges();
    const rows = values.length === 0 && isScript(text) ? this.#script(text) : this.#rows(text, values);
    const rowsWritten = this.#totalChanges() - before;
    if (rowsWritten > 0 || isSchema(text)) {
      this.#isUntold = true;
      this.#wrote();
    }
    if (this.#savepoints === 0) this.#tell();
    return cursorOf(rows, rowsWritten);
  }

  #rows(text: string, values: readonly SqlStorageValue[]): Row[] {
    const statement = this.#prepared(text);
    const bound = values.map((value) => (value instanceof ArrayBuffer ? new Uint8Array(value) : value));
    const rows = statement.all(...(bound as SQLInputValue[])) as Row[];
    for (const row of rows) makePlatform(row);
    return rows;
  }

  #prepared(text: string): StatementSync {
    const known = this.#statements.get(text);
    if (known) return known;
    const statement = this.#db.prepare(text);
    this.#statements.set(text, statement);
    return statement;
  }

  #script(text: string): Row[] {
    this.#db.exec(text);
    return [];
  }

  /** Savepoints of the platform; a promise as the answer is the caller's fault, and undone by it. */
  #transaction<T>(work: () => T): T {
    this.#begin();
    const name = `s${++this.#savepoints}`;
    const alarm = this.#alarm;
    this.#db.exec(`SAVEPOINT ${name}`);
    try {
      const answer = work();
      this.#db.exec(`RELEASE ${name}`);
      return answer;
    } catch (error) {
      this.#db.exec(`ROLLBACK TO ${name}; RELEASE ${name}`);
      this.#alarm = alarm;
      throw error;
    } finally {
      if (--this.#savepoints === 0) this.#tell();
    }
  }

  #tell(): void {
    if (!this.#isUntold) return;
    this.#isUntold = false;
    for (const watcher of this.#watchers) watcher.wrote();
  }

  #setAlarm(at: number | null): void {
    this.#isAlarmSetAgain = true;
    if (this.#alarm === at) return;
    this.#alarm = at;
    this.#begin();
    this.#wrote();
  }

  #begin(): void {
    if (!this.#db.isTransaction) this.#db.exec("BEGIN");
  }

  #totalChanges(): number {
    return (this.#changes.get() as { changes: number }).changes;
  }

  #databaseSize(): number {
    const { pages, size } = this.#db
      .prepare("SELECT page_count AS pages, page_size AS size FROM pragma_page_count, pragma_page_size")
      .get() as { pages: number; size: number };
    return pages * size;
  }

  /** The disk gets it some time after the turn. */
  #wrote(): void {
    this.#isDirty = true;
    if (this.#flush) return;
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const flush = { done, resolve };
    this.#flush = flush;
    const { world, failsToFlush, broken } = this.#options;
    world.after(world.random.next() * FLUSH_MS, () => {
      // A crash came first.
      if (this.#flush !== flush) return;
      if (failsToFlush()) broken();
      else this.#commit();
    });
  }

  #commit(): void {
    const flush = this.#flush;
    if (this.#isDirty && this.#db.isTransaction) this.#db.exec("COMMIT");
    this.#isDirty = false;
    this.#flush = undefined;
    const isOtherAlarm = this.#durableAlarm !== this.#alarm;
    this.#durableAlarm = this.#alarm;
    if (isOtherAlarm) this.#options.alarmChanged();
    for (const watcher of this.#watchers) watcher.flushed();
    flush?.resolve();
  }
}

/** Statements without parameters may be several. */
function isScript(text: string): boolean {
  return isSchema(text) || /;\s*\S/.test(text);
}

/** Whether a statement can write nothing. One that writes and answers begins with another word. */
function isRead(text: string): boolean {
  return /^\s*SELECT\b/i.test(text) && !/;\s*\S/.test(text);
}

function isSchema(text: string): boolean {
  return /^\s*(CREATE|DROP|ALTER|PRAGMA|VACUUM)\b/i.test(text);
}

/** Bytes are ArrayBuffers on the platform. */
function makePlatform(row: Row): void {
  for (const name in row) {
    const value = row[name];
    if (value instanceof Uint8Array)
      row[name] = value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
  }
}

function cursorOf(rows: Row[], rowsWritten: number) {
  return {
    rowsWritten,
    rowsRead: rows.length,
    columnNames: Object.keys(rows[0] ?? {}),
    toArray: () => rows,
    one: () => {
      const [row] = rows;
      if (!row || rows.length > 1)
        throw new Error(`Expected exactly one result from SQL query, but got ${rows.length}`);
      return row;
    },
    [Symbol.iterator]: () => rows[Symbol.iterator](),
  };
}
