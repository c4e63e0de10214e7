import type { Tx } from "../../objects/transaction.ts";
import type { Rowids } from "../contents/content-store.ts";
import type { BranchContext, Moment } from "../context.ts";
import type { AnswerOf, CommitRefused, Committed, RequestOf } from "../contract.ts";
import { forgetErasures, hearersOf } from "../outbox/erasure-store.ts";
import { hastenRounds } from "../settings/rounds.ts";
import { commitChanges } from "../write/commit.ts";
import type { Gate } from "../write/gate.ts";
import { copiesOf } from "./copies.ts";
import { eraseVersions, hasVersion, spansOfFiles } from "./erase.ts";
import { readHolders } from "./holders.ts";
import { rowidsAhead } from "./rowids.ts";

/** Most erasures that one answer tells of. */
const TOLD = 500;

interface ErasureCallsOptions extends Pick<BranchContext, "ledger" | "now" | "moment" | "turn" | "pause"> {
  readonly gate: Gate;
}

/** The calls of BranchApi about versions that are erased. */
export class ErasureCalls {
  readonly #options: ErasureCallsOptions;

  constructor(options: ErasureCallsOptions) {
    this.#options = options;
  }

  /** One transaction, but for what is looked up ahead of it. It waits for a large commit like any other write. */
  async erase(request: RequestOf<"erase">): Promise<AnswerOf<"erase">> {
    const { ledger, gate, turn, pause } = this.#options;
    if (!ledger.exists) return { ok: false, reason: "no-such-branch" };
    const rowids = await rowidsAhead(ledger, { request, turn, pause });
    return await gate.pass(() => this.#erase(request, rowids));
  }

  spans(request: RequestOf<"spans">): AnswerOf<"spans"> {
    const { ledger } = this.#options;
    if (!ledger.exists) return { files: [], readers: [] };
    return { files: spansOfFiles(ledger, request), readers: ledger.subscribers.all() };
  }

  copies(request: RequestOf<"copies">): AnswerOf<"copies"> {
    return copiesOf(this.#options.ledger, request);
  }

  async holders(request: RequestOf<"holders">): Promise<AnswerOf<"holders">> {
    const { ledger, turn } = this.#options;
    return await readHolders(ledger, { ...request, turn });
  }

  /** What a pipeline has not heard of; asking says that it has heard of all before. */
  erasures({ uid, after }: RequestOf<"erasures">): AnswerOf<"erasures"> {
    const { ledger } = this.#options;
    if (!ledger.exists) return { erasures: [], upTo: after };
    if (hearersOf(ledger).some((hearer) => hearer.uid === uid)) {
      ledger.transaction((tx) => {
        ledger.erasures.heard(uid, after);
        forgetErasures(tx, ledger, this.#options.now());
      });
    }
    const told = ledger.erasures.after(after, TOLD);
    const last = told.length < TOLD ? ledger.erasures.newest : told.at(-1)?.number;
    return {
      upTo: Math.max(after, last ?? after),
      erasures: told.map(({ gen: generation, version, ...row }) => {
        const origin = ledger.commits.originOf({ gen: generation, seq: version });
        return {
          ...row,
          generation,
          origin,
          now: ledger.files.head(generation, row.path) ?? null,
          left: hasVersion(ledger, generation, row.path),
        };
      }),
    };
  }

  #erase(request: RequestOf<"erase">, rowids: Rowids): AnswerOf<"erase"> {
    const { ledger } = this.#options;
    const moment = this.#options.moment();
    return ledger.transaction((tx) => {
      const before = ledger.live?.head ?? { seq: 0, births: 0 };
      const answer = eraseVersions(tx, ledger, { request, rowids, moment });
      if (!answer.ok) return answer;
      const deleted = this.#deleted(tx, { request, moment });
      const event = deleted?.ok && deleted.commit ? deleted.commit : answer.commit;
      if (event !== null) ledger.outbox.ring(ledger.subscribers.all(), { event, now: moment.now });
      hastenRounds(tx, ledger, { before, now: moment.now, by: "erasure" });
      return { ...answer, ...(deleted && { deleted }) };
    });
  }

  #deleted(
    tx: Tx,
    { request: { deletions = [], note }, moment }: { request: RequestOf<"erase">; moment: Moment },
  ): Committed | CommitRefused | undefined {
    if (deletions.length === 0) return undefined;
    const operations = { operations: deletions, onFailedCondition: "leave-out" } as const;
    const request = { ...operations, ...(note && { note }) };
    return commitChanges(tx, this.#options.ledger, { request, moment });
  }
}
