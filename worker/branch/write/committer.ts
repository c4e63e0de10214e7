import type { Ledger } from "../ledger/ledger.ts";
import type { Courier } from "../lifecycle/courier.ts";
import type { Moment } from "../lifecycle/generation.ts";

/** An answer that may have made a commit. */
export type Outcome = { readonly ok: true; readonly commit?: string | null } | { readonly ok: false };

interface CommitterOptions {
  readonly ledger: Ledger;
  readonly courier: Courier;
  readonly moment: () => Moment;
  /** Goes on with work when the call is answered. */
  readonly later: (work: Promise<unknown>) => void;
}

/** Makes commits, and the doorbells that they ring, in one transaction. */
export class Committer {
  readonly #options: CommitterOptions;

  constructor(options: CommitterOptions) {
    this.#options = options;
  }

  /** One call's commit. */
  one<A extends Outcome>(work: (moment: Moment) => A): A {
    const { moment } = this.#options;
    const now = moment();
    return this.#commit(now, () => {
      const answer = work(now);
      return { answer, last: answer };
    });
  }

  /** The commits of calls that waited together, one each. */
  each<Item, A extends Outcome>(items: readonly Item[], work: (item: Item, moment: Moment) => A): A[] {
    const { moment } = this.#options;
    const now = moment();
    return this.#commit(now, () => {
      const answer = items.map((item) => work(item, now));
      return { answer, last: answer.findLast((one) => one.ok && one.commit) };
    });
  }

  #commit<T>({ now }: Moment, work: () => { answer: T; last: Outcome | undefined }): T {
    const { ledger, courier, later } = this.#options;
    const subscribers = ledger.subscribers.all();
    const answer = ledger.transaction(() => {
      const { answer, last } = work();
      if (last?.ok && last.commit) ledger.outbox.ring(subscribers, { event: last.commit, now });
      return answer;
    });
    if (subscribers.length > 0) {
      courier.watch();
      later(courier.dispatch());
    }
    return answer;
  }
}
