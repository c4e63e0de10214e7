import type { Changes, Tx } from "../../objects/transaction.ts";
import type { BranchContext, Moment } from "../context.ts";
import { expectScans, hastenScans } from "../settings/lifecycle-scans.ts";

/** An answer that may have made a commit. */
export type Outcome = { readonly ok: true; readonly commit?: string | null } | { readonly ok: false };
/** What a write does in its transaction. */
export type Work<A> = (tx: Tx, moment: Moment) => A;

type CommitterOptions = Pick<BranchContext, "ledger" | "moment">;

/** Makes commits. The wake-ups that they owe are written down in the same transaction, so that no commit stays unheard. */
export class Committer {
  readonly #options: CommitterOptions;

  constructor(options: CommitterOptions) {
    this.#options = options;
  }

  /** One call's commit. `changes`: as `Transactions.run` takes it. */
  one<A extends Outcome>(work: Work<A>, changes?: Changes): A {
    const moment = this.#options.moment();
    const commit = (tx: Tx) => {
      const answer = work(tx, moment);
      return { answer, last: answer };
    };
    return this.#commit(commit, { moment, changes });
  }

  /** The commits of calls that waited together, one each. They change rows of paths alone. */
  each<Item, A extends Outcome>(
    items: readonly Item[],
    work: (tx: Tx, moment: Moment, item: Item) => A,
  ): A[] {
    const moment = this.#options.moment();
    const commit = (tx: Tx) => {
      const answer = items.map((item) => work(tx, moment, item));
      return { answer, last: answer.findLast((one) => one.ok && one.commit) };
    };
    return this.#commit(commit, { moment, changes: "paths" });
  }

  #commit<T>(
    work: (tx: Tx) => { answer: T; last: Outcome | undefined },
    { moment: { now }, changes }: { moment: Moment; changes: Changes | undefined },
  ): T {
    const { ledger } = this.#options;
    return ledger.transaction((tx) => {
      const before = ledger.live?.head ?? { seq: 0, births: 0 };
      const { answer, last } = work(tx);
      if (!last?.ok || !last.commit) return answer;
      ledger.outbox.ring(ledger.subscribers.all(), { event: last.commit, now });
      if ((ledger.live?.head.births ?? 0) === before.births) return answer;
      expectScans(tx, ledger, { action: "expire", writtenAt: now });
      hastenScans(tx, ledger, { before, now, by: "commit" });
      return answer;
    }, changes);
  }
}
