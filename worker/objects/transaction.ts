declare const UNDER_WAY: unique symbol;

/**
 * Stands for the transaction that is under way. A function that takes one writes several rows that belong together, so
 * it can't be called outside of a transaction. Only a ledger hands them out. Not to be kept.
 */
export interface Tx {
  readonly [UNDER_WAY]: true;
}

/** What of the platform's storage runs transactions. */
export interface TransactionStorage {
  transactionSync<T>(work: () => T): T;
}

// The type alone says it: nothing is ever read of it.
const TX = {} as Tx;

/** All of `work` or nothing, and nothing else runs in between. What `work` throws undoes it and is thrown on. */
export function transaction<T>(storage: TransactionStorage, work: (tx: Tx) => T): T {
  return storage.transactionSync(() => work(TX));
}
