import type { BranchContext } from "../context.ts";
import type { AnswerOf, RequestOf } from "../contract.ts";
import { protectionRefusal } from "../settings/settings.ts";

type OpenCommitContext = Pick<BranchContext, "ledger" | "moment">;

/** The calls of BranchApi about open commits, but for their end, which is a write. */
export class OpenCommitCalls {
  readonly #context: OpenCommitContext;

  constructor(context: OpenCommitContext) {
    this.#context = context;
  }

  start({ ttlMs, note }: RequestOf<"startOpenCommit">): AnswerOf<"startOpenCommit"> {
    const { ledger, moment } = this.#context;
    const { live } = ledger;
    if (!live) return { ok: false, reason: "no-such-branch" };
    if (ledger.claim.get()) return { ok: false, reason: "pipeline-output" };
    const { gen } = live;
    const { now, id } = moment();
    const openCommit = id(now);
    const refusal = ledger.transaction((tx) => {
      const refusal = protectionRefusal(tx, ledger, { gen, key: note?.key });
      const base = live.head.seq;
      if (!refusal) ledger.openCommits.open({ id: openCommit, gen, now, ttlMs, base, origin: null, note });
      return refusal;
    });
    if (refusal) return refusal;
    return { ok: true, openCommit };
  }

  status({ openCommit: id }: RequestOf<"openCommitStatus">): AnswerOf<"openCommitStatus"> {
    const { live, openCommits } = this.#context.ledger;
    const openCommit = live ? openCommits.find(id, live.gen) : undefined;
    if (!openCommit || openCommit.origin !== null || openCommit.state === "ended") {
      return { ok: false, reason: "no-such-open-commit" };
    }
    const { openedAt, operations, state, commit } = openCommit;
    const due = state === "open" ? openCommit.due : null;
    return { ok: true, openedAt, due, operations, state, commit };
  }

  /** `next`: the number of the last one, if there are more. */
  list({ after, limit }: RequestOf<"openCommits">): AnswerOf<"openCommits"> {
    const { live, openCommits } = this.#context.ledger;
    if (!live) return { ok: false, reason: "no-such-branch" };
    const found = openCommits.unfinished(live.gen, { after: after ?? 0, limit: limit + 1 });
    const page = found.slice(0, limit);
    const shown = page.map(({ id, openedAt, operations, state, due, commit, note }) => ({
      ...{ openCommit: id, openedAt, operations, state: state === "applying" ? state : ("open" as const) },
      ...{ due: state === "open" ? due : null, commit, ...(note && { note }) },
    }));
    return {
      ok: true,
      openCommits: shown,
      next: found.length > limit ? (page.at(-1)?.number ?? null) : null,
    };
  }

  abort({ openCommit: id }: RequestOf<"abortOpenCommit">): AnswerOf<"abortOpenCommit"> {
    const { ledger, moment } = this.#context;
    const { live } = ledger;
    if (!live) return { ok: true };
    const { now } = moment();
    return ledger.transaction(() => {
      const openCommit = ledger.openCommits.find(id, live.gen);
      // What was finished stays in the history.
      if (!openCommit || openCommit.origin !== null || openCommit.state === "finished") return { ok: true };
      const applying = ledger.applying.get();
      if (applying?.openCommit === openCommit.number) {
        if (applying.seq !== null) return { ok: false, reason: "applying" };
        ledger.applying.clear();
      }
      ledger.openCommits.end(openCommit, now);
      return { ok: true };
    });
  }
}
