import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import type { CommitRefused, Committed, OutputCommit, Refused, SessionEnd } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { applyStamped } from "../write/commit.ts";
import { type FinalState, type PlannedChange, planCommit } from "../write/plan.ts";
import { claimedBranch, type Stamps, writableBranch } from "../write/writable.ts";
import type { Session } from "./session-store.ts";

const APPLYING = { ok: false, reason: "applying" } as const;

interface Finishing {
  readonly live: Live;
  readonly session: Session;
  readonly stamps: Stamps;
}

/**
 * Publishes an open commit: at once where one commit takes it, else it is begun. To be called in a transaction, while
 * no other one is being applied.
 */
export function finishSession(
  ledger: Ledger,
  { id, stamps }: { id: string; stamps: Stamps },
): SessionEnd | CommitRefused {
  const { live } = ledger;
  const session = live ? ledger.sessions.find(id, live.gen) : undefined;
  if (!live || !session || session.origin !== null) return { ok: false, reason: "no-such-session" };
  if (session.state === "applying") return { ok: true, state: "applying" };
  if (session.state === "finished") {
    const modifiedAt = session.modifiedAt ?? live.head.modifiedAt;
    return { ok: true, state: "finished", commit: session.commit, modifiedAt };
  }
  const refusal = ledger.sessions.takeRefusal(session);
  if (refusal) return refusal;
  const writable = writableBranch(ledger, session.operations);
  if (!writable.ok) return writable;
  const answer = publishOrBegin(ledger, { live, session, stamps });
  if (answer.ok) {
    return { ok: true, state: "finished", commit: answer.commit, modifiedAt: answer.modifiedAt };
  }
  return answer.reason === "applying" ? { ok: true, state: "applying" } : answer;
}

/** The commit of a job whose operations were staged, once. To be called like `finishSession`. */
export function finishOutput(
  ledger: Ledger,
  { request, stamps }: { request: OutputCommit; stamps: Stamps },
): Committed | CommitRefused | Refused<"applying"> {
  const claimed = claimedBranch(ledger, request);
  if (!claimed.ok) return claimed;
  const { live } = claimed;
  const made = ledger.commits.byOrigin(live.gen, request.origin);
  if (made) return { ok: true, commit: made.id, modifiedAt: made.createdAt };
  const session = ledger.sessions.byOrigin(live.gen, request.origin);
  if (!session) return { ok: false, reason: "no-such-session" };
  if (session.state === "applying") return APPLYING;
  const refusal = ledger.sessions.takeRefusal(session);
  if (refusal) return refusal;
  if (ledger.isFull(session.operations)) return { ok: false, reason: "branch-full" };
  return publishOrBegin(ledger, { live, session, stamps });
}

function publishOrBegin(
  ledger: Ledger,
  finishing: Finishing,
): Committed | CommitRefused | Refused<"applying"> {
  const { session } = finishing;
  if (session.operations <= MAX_COMMIT_OPERATIONS) return publishAtOnce(ledger, finishing);
  ledger.sessions.startApplying(session);
  ledger.applying.begin(session);
  return APPLYING;
}

function publishAtOnce(ledger: Ledger, { live, session, stamps }: Finishing): Committed | CommitRefused {
  const { gen, number, origin } = session;
  const state = ledger.staged.all(number);
  // What is staged has its contents.
  const planned = planCommit(ledger, { gen, state, contentComes: "with-it" });
  if (!planned.ok) return planned;
  const { changes } = planned;
  releaseUnchanged(ledger, { gen, state, changes });
  ledger.staged.clear(number);
  const { modifiedAt } = live.head;
  const isMade = changes.length > 0 || origin !== null;
  // Files that are born take over what was kept for them.
  const keep = () => {};
  const answer: Committed = isMade
    ? applyStamped(ledger, { live, changes, stamps, origin: origin ?? undefined, keep })
    : { ok: true, commit: null, modifiedAt };
  ledger.sessions.finish(session, { ...answer, now: stamps.now });
  ledger.contents.buryReleased(stamps.now);
  return answer;
}

/** What is there already keeps its own content. */
function releaseUnchanged(
  ledger: Ledger,
  { gen, state, changes }: { gen: number; state: FinalState; changes: readonly PlannedChange[] },
): void {
  const changed = new Set(changes.map(({ path }) => path));
  for (const [path, now] of state) {
    if (now && kindOf(path) === "file" && !changed.has(path)) ledger.contents.release({ ...now, gen });
  }
}
