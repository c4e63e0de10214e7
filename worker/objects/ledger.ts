import { hasTables, migrate } from "./migrations.ts";
import { OBJECT_BYTES } from "./space.ts";
import { Sql } from "./sql.ts";
import { Transactions, type Tx, type Woken } from "./transaction.ts";

/** The tables of one object and its transactions. What extends it has the stores as fields. */
export abstract class ObjectLedger {
  readonly sql: Sql;
  readonly #storage: DurableObjectStorage;
  readonly #migrations: readonly string[];
  readonly #transactions: Transactions;
  #exists = false;

  constructor(storage: DurableObjectStorage, migrations: readonly string[]) {
    this.#storage = storage;
    this.#migrations = migrations;
    this.#transactions = new Transactions({ storage, forget: () => this.forget() });
    this.sql = new Sql(storage.sql, (loop, at) => this.wake(loop, at));
  }

  /** Forgets what stores keep in memory of their rows. */
  protected abstract forget(): void;

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
  transaction<T>(work: (tx: Tx) => T): T {
    return this.#transactions.run(work);
  }

  /** A loop of the object has something to do at this time, or now: it hears of it when the transaction is done. */
  wake(loop: string, at?: number): void {
    this.#transactions.wake(loop, at);
  }

  /** Whom it tells of loops that have something to do. */
  set listener(wake: (woken: Woken) => void) {
    this.#transactions.listener = wake;
  }

  /** How large the database is, and may become. */
  get space(): { readonly usedBytes: number; readonly limitBytes: number } {
    return { usedBytes: this.#storage.sql.databaseSize, limitBytes: OBJECT_BYTES };
  }
}
