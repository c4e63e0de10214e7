import type * as Contract from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Moment } from "../lifecycle/generation.ts";

interface SessionCallsOptions {
  readonly ledger: Ledger;
  readonly moment: () => Moment;
  /** Sees to it that sessions that ran out by this time are ended soon after. */
  readonly wake: (at: number) => void;
}

/** What a Branch object answers about open commits, but for their end; as of BranchApi. */
export class SessionCalls {
  readonly #options: SessionCallsOptions;

  constructor(options: SessionCallsOptions) {
    this.#options = options;
  }

  open({
    ttlMs,
  }: {
    ttlMs: number;
  }): Contract.SessionOpened | Contract.Refused<"no-such-branch" | "pipeline-output"> {
    const { ledger, moment, wake } = this.#options;
    const { live } = ledger;
    if (!live) return { ok: false, reason: "no-such-branch" };
    if (ledger.writer.get()) return { ok: false, reason: "pipeline-output" };
    const { now, id } = moment();
    const session = id(now);
    ledger.transaction(() => ledger.sessions.open({ id: session, gen: live.gen, now, ttlMs, origin: null }));
    wake(now + ttlMs);
    return { ok: true, session };
  }

  status({ session: id }: { session: string }): Contract.SessionStatus | Contract.Refused<"no-such-session"> {
    const { ledger } = this.#options;
    const { live } = ledger;
    const session = live ? ledger.sessions.find(id, live.gen) : undefined;
    if (!session || session.origin !== null || session.state === "ended") {
      return { ok: false, reason: "no-such-session" };
    }
    const { openedAt, operations, state, commit } = session;
    const due = state === "open" ? session.due : null;
    return { ok: true, openedAt, due, operations, state, commit };
  }

  abort({ session: id }: { session: string }): Contract.Done | Contract.Refused<"applying"> {
    const { ledger, moment, wake } = this.#options;
    const { live } = ledger;
    if (!live) return { ok: true };
    const { now } = moment();
    return ledger.transaction(() => {
      const session = ledger.sessions.find(id, live.gen);
      // What was published stays published.
      if (!session || session.origin !== null || session.state === "finished") return { ok: true };
      const applying = ledger.applying.get();
      if (applying?.session === session.number) {
        if (applying.seq !== null) return { ok: false, reason: "applying" };
        ledger.applying.clear();
      }
      ledger.sessions.end(session, now);
      wake(now);
      return { ok: true };
    });
  }
}
