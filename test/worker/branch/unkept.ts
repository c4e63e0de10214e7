import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import type { Changes, Tx } from "../../../worker/objects/transaction.ts";

/** A content of another branch that nothing keeps: its owner may delete the bytes while somebody comes upon it here. */
export const UNKEPT =
  "SELECT 1 FROM contents INDEXED BY contents_unkept WHERE onLoan = 1 AND refs = 0 LIMIT 1";

const { transaction } = Ledger.prototype;
let depth = 0;

function watched<T>(this: Ledger, work: (tx: Tx) => T, changes?: Changes): T {
  depth++;
  try {
    return transaction.call(this, work, changes) as T;
  } finally {
    depth--;
    if (depth === 0 && this.sql.query(UNKEPT, []).length > 0) {
      // biome-ignore lint/correctness/noUnsafeFinally: whatever became of the transaction, this is worse.
      throw new Error("a transaction left a content on loan that nothing keeps");
    }
  }
}

/** Every branch of every test looks after each of its transactions, until `stop` is called. */
export function watchUnkept(): { stop(): void } {
  Ledger.prototype.transaction = watched;
  return {
    stop() {
      Ledger.prototype.transaction = transaction;
    },
  };
}
