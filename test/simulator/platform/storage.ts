import type { SQLInputValue } from "node:sqlite";
import type { Database, Databases, Row } from "./database.ts";
import type { World } from "./world.ts";

/** How long a write waits for the disk at most; milliseconds. */
const FLUSH_MS = 8;

interface StorageOptions {
  readonly world: World;
  /** Where its database is from. */
  readonly databases: Databases;
  /** A flush failed: whoever wrote is to be reset. */
  readonly broken: () => void;
  /** What is durable says when the alarm rings. */
  readonly alarmChanged: () => void;
  readonly failsToFlush: () => boolean;
}

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
  /** So much more the database is said to have. */
  filledBytes = 0;
  readonly #options: StorageOptions;
  /** Undefined once the simulation is over. */
  #database: Database | undefined;
  readonly #watchers: Watcher[] = [];
  /** What was written and no watcher was told of yet. */
  #isUntold = false;
  #isDirty = false;
  #flush: { readonly done: Promise<void>; readonly resolve: () => void } | undefined;
  /** As the instance has it, and as the disk has it. */
  #alarm: number | null = null;
  #durableAlarm: number | null = null;
  /** Since it rang. */
  #isAlarmSetAgain = false;

  constructor(options: StorageOptions) {
    this.#options = options;
    this.#database = options.databases.take();
  }

  get #db(): Database {
    if (!this.#database) throw new Error("the simulation is over");
    return this.#database;
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
    const size = () => this.#db.bytes + this.filledBytes;
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
    this.#db.rollback();
    this.#isDirty = false;
    this.#alarm = this.#durableAlarm;
    this.#flush = undefined;
    this.#isUntold = false;
    for (const watcher of this.#watchers) watcher.lost();
  }

  /** The simulation is over. */
  close(): void {
    this.#options.databases.giveBack(this.#db);
    this.#database = undefined;
  }

  /** Whether there is a table, for whoever looks at the rows from outside. */
  has(table: string): boolean {
    return this.#db.has(table);
  }

  /** Tells what becomes of what is written. */
  watch(watcher: Watcher): void {
    this.#watchers.push(watcher);
  }

  /** For whoever looks at the rows from outside. */
  read<T extends object>(text: string, ...values: SQLInputValue[]): T[] {
    return [...this.look<T>(text, ...values)];
  }

  /** The same; and the same array as before, if nothing was written to the tables that the rows are of. */
  look<T extends object>(text: string, ...values: SQLInputValue[]): readonly T[] {
    return this.#db.look(text, values) as readonly T[];
  }

  #exec(text: string, values: readonly SqlStorageValue[]) {
    const db = this.#db;
    db.begin();
    const form = formOf(text);
    const ran = values.length === 0 && form.isScript ? this.#script(text) : this.#run(text, values);
    if (ran.changes > 0 || form.isSchema) {
      this.#isUntold = true;
      this.#wrote();
    }
    if (db.isOutermost) this.#tell();
    return new Cursor(ran.rows, ran.changes);
  }

  #run(text: string, values: readonly SqlStorageValue[]) {
    const bound = values.map((value) => (value instanceof ArrayBuffer ? new Uint8Array(value) : value));
    const ran = this.#db.run(text, bound as SQLInputValue[]);
    for (const row of ran.rows) makePlatform(row);
    return ran;
  }

  #script(text: string): { readonly rows: Row[]; readonly changes: number } {
    return { rows: [], changes: this.#db.script(text) };
  }

  /** Savepoints of the platform; a promise as the answer is the caller's fault, and undone by it. */
  #transaction<T>(work: () => T): T {
    const db = this.#db;
    db.begin();
    db.save();
    const alarm = this.#alarm;
    try {
      const answer = work();
      db.release();
      return answer;
    } catch (error) {
      // The alarm was set back with the rest if the instance ended amid it.
      if (db.undo()) this.#alarm = alarm;
      throw error;
    } finally {
      if (db.isOutermost) this.#tell();
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
    this.#db.begin();
    this.#wrote();
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
    if (this.#isDirty) this.#db.commit();
    this.#isDirty = false;
    this.#flush = undefined;
    const isOtherAlarm = this.#durableAlarm !== this.#alarm;
    this.#durableAlarm = this.#alarm;
    if (isOtherAlarm) this.#options.alarmChanged();
    for (const watcher of this.#watchers) watcher.flushed();
    flush?.resolve();
  }
}

/** What a text of SQL is. */
interface TextForm {
  /** Statements without parameters may be several. */
  readonly isScript: boolean;
  /** It makes tables or changes them. */
  readonly isSchema: boolean;
}
const forms = new Map<string, TextForm>();

function formOf(text: string): TextForm {
  const known = forms.get(text);
  if (known) return known;
  const isSchema = /^\s*(CREATE|DROP|ALTER|PRAGMA|VACUUM)\b/i.test(text);
  const form = { isSchema, isScript: isSchema || /;\s*\S/.test(text) };
  forms.set(text, form);
  return form;
}

/** Bytes are ArrayBuffers on the platform. */
function makePlatform(row: Row): void {
  for (const name in row) {
    const value = row[name];
    if (value instanceof Uint8Array)
      row[name] = value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
  }
}

/** What a statement answers. */
class Cursor {
  readonly rowsWritten: number;
  readonly #rows: Row[];

  constructor(rows: Row[], rowsWritten: number) {
    this.#rows = rows;
    this.rowsWritten = rowsWritten;
  }

  get rowsRead(): number {
    return this.#rows.length;
  }

  get columnNames(): string[] {
    return Object.keys(this.#rows[0] ?? {});
  }

  toArray(): Row[] {
    return this.#rows;
  }

  one(): Row {
    const [row] = this.#rows;
    if (!row || this.#rows.length > 1)
      throw new Error(`Expected exactly one result from SQL query, but got ${this.#rows.length}`);
    return row;
  }

  [Symbol.iterator](): Iterator<Row> {
    return this.#rows[Symbol.iterator]();
  }
}
