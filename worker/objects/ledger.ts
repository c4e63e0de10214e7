import { hasTables, migrate } from "./migrations.ts";
import { OBJECT_BYTES } from "./space.ts";
import { Sql } from "./sql.ts";
import { type Changes, type TransactionStorage, Transactions, type Tx, type Woken } from "./transaction.ts";

/** What of the platform's storage a ledger uses. */
export interface LedgerStorage extends TransactionStorage {
  readonly sql: Pick<SqlStorage, "exec" | "databaseSize">;
}

/** The tables of one object and its transactions. What extends it has the stores as fields, and knows its loops by name. */
export abstract class ObjectLedger<LoopName extends string = string> {
  readonly sql: Sql;
  readonly #storage: LedgerStorage;
  readonly #migrations: readonly string[];
  readonly #limitBytes: number;
  protected readonly transactions: Transactions;
  #exists = false;

  /** `limitBytes`: what the database may have. */
  constructor(storage: LedgerStorage, migrations: readonly string[], limitBytes = OBJECT_BYTES) {
    this.#storage = storage;
    this.#migrations = migrations;
    this.#limitBytes = limitBytes;
    this.transactions = new Transactions({
      storage,
      atEnd: () => this.conclude(),
      forget: () => this.forget(),
      ended: (changes) => this.withdraw(changes),
    });
    this.sql = new Sql(storage.sql, (loop, at) => this.transactions.wake(loop, at));
  }

  /** Forgets what stores keep in memory of their rows. */
  protected abstract forget(): void;

  /** What each outermost transaction leaves behind, whatever it was about; in it. */
  protected conclude(): void {}

  /** Withdraws what memory outside of the object may have. */
  protected withdraw(_: Changes): void {}

  /** Brings the tables to this version's form, if there are any. To be called once the stores are there. */
  protected open(): void {
    if (hasTables(this.sql)) this.makeTables();
  }

  /** Whether the object was ever made: without tables no store may be asked. */
  get exists(): boolean {
    return this.#exists;
  }

  makeTables(): void {
    if (this.#exists) return;
    this.transaction((tx) => migrate(tx, this.sql, this.#migrations));
    this.#exists = true;
  }

  /** All of it or nothing; nothing else runs in between. */
  transaction<T>(work: (tx: Tx) => T, changes?: Changes): T {
    return this.transactions.run(work, changes);
  }

  /** Resolves when what was written is on the disk. */
  durable(): Promise<void> {
    return this.transactions.durable();
  }

  /** A loop of the object has something to do at this time, or now: it hears of it when the transaction is done. */
  wake(loop: LoopName, at?: number): void {
    this.transactions.wake(loop, at);
  }

  /** Whom it tells of loops that have something to do. */
  set listener(wake: (woken: Woken) => void) {
    this.transactions.listener = wake;
  }

  /** How large the database is, and may become. */
  get space(): { readonly usedBytes: number; readonly limitBytes: number } {
    return { usedBytes: this.#storage.sql.databaseSize, limitBytes: this.#limitBytes };
  }
}
