import type { Tx } from "../../sqlite/transaction.ts";
import type { StoredState } from "../lifecycle/pipeline-store.ts";
import type { Ledger } from "./ledger.ts";

/**
 * A step of what takes a pipeline from one state to another: done in one transaction, and only while this life of the
 * pipeline is still in the state that the step belongs to.
 */
export function whileIn(
  ledger: Ledger,
  { uid, state, work }: { uid: string; state: StoredState; work: (tx: Tx) => void },
): void {
  ledger.transaction((tx) => {
    if (ledger.pipeline.row()?.state === state && ledger.pipeline.definition()?.uid === uid) work(tx);
  });
}
