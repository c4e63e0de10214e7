import { type TransactionStorage, Transactions, type Tx } from "../../../worker/objects/transaction.ts";

/** One transaction, of stores that no ledger puts together. */
export function transaction<T>(storage: TransactionStorage, work: (tx: Tx) => T): T {
  return new Transactions({ storage, forget: () => {} }).run(work);
}
