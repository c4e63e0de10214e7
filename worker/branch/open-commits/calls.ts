import type * as Contract from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Moment } from "../lifecycle/generation.ts";

interface OpenCommitCallsOptions {
  readonly ledger: Ledger;
  readonly moment: () => Moment;
  /** Sees to it that open commits that ran out by this time are ended soon after. */
  readonly wake: (at: number) => void;
}

/** What a Branch object answers about open commits, but for their end; as of BranchApi. */
export class OpenCommitCalls {
  readonly #options: OpenCommitCallsOptions;

  constructor(options: OpenCommitCallsOptions) {
    this.#options = options;
  }

  open({
    ttlMs,
  }: {
    ttlMs: number;
  }): Contract.OpenCommitStarted | Contract.Refused<"no-such-branch" | "pipeline-output"> {
    const { ledger, moment, wake } = this.#options;
    const { live } = ledger;
    if (!live) return { ok: false, reason: "no-such-branch" };
    if (ledger.writer.get()) return { ok: false, reason: "pipeline-output" };
    const { now, id } = moment();
    const openCommit = id(now);
    ledger.transaction(() =>
      ledger.openCommits.open({ id: openCommit, gen: live.gen, now, ttlMs, origin: null }),
    );
    wake(now + ttlMs);
    return { ok: true, openCommit };
  }

  status({
    openCommit: id,
  }: {
    openCommit: string;
  }): Contract.OpenCommitStatus | Contract.Refused<"no-such-open-commit"> {
    const { ledger } = this.#options;
    const { live } = ledger;
    const openCommit = live ? ledger.openCommits.find(id, live.gen) : undefined;
    if (!openCommit || openCommit.origin !== null || openCommit.state === "ended") {
      return { ok: false, reason: "no-such-open-commit" };
    }
    const { openedAt, operations, state, commit } = openCommit;
    const due = state === "open" ? openCommit.due : null;
    return { ok: true, openedAt, due, operations, state, commit };
  }

  abort({ openCommit: id }: { openCommit: string }): Contract.Done | Contract.Refused<"applying"> {
    const { ledger, moment, wake } = this.#options;
    const { live } = ledger;
    if (!live) return { ok: true };
    const { now } = moment();
    return ledger.transaction(() => {
      const openCommit = ledger.openCommits.find(id, live.gen);
      // What was published stays published.
      if (!openCommit || openCommit.origin !== null || openCommit.state === "finished") return { ok: true };
      const applying = ledger.applying.get();
      if (applying?.openCommit === openCommit.number) {
        if (applying.seq !== null) return { ok: false, reason: "applying" };
        ledger.applying.clear();
      }
      ledger.openCommits.end(openCommit, now);
      wake(now);
      return { ok: true };
    });
  }
}
