import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import type { CommitRefused, Committed, OpenCommitEnd, OutputCommit, Refused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { applyStamped } from "../write/commit.ts";
import { type FinalState, type PlannedChange, planCommit } from "../write/plan.ts";
import { claimedBranch, type Stamps, writableBranch } from "../write/writable.ts";
import type { OpenCommit } from "./open-commit-store.ts";

const APPLYING = { ok: false, reason: "applying" } as const;

interface Finishing {
  readonly live: Live;
  readonly openCommit: OpenCommit;
  readonly stamps: Stamps;
}

/**
 * Publishes an open commit: at once where one commit takes it, else it is begun. To be called in a transaction, while
 * no other one is being applied.
 */
export function finishOpenCommit(
  ledger: Ledger,
  { id, stamps }: { id: string; stamps: Stamps },
): OpenCommitEnd | CommitRefused {
  const { live } = ledger;
  const openCommit = live ? ledger.openCommits.find(id, live.gen) : undefined;
  if (!live || !openCommit || openCommit.origin !== null) return { ok: false, reason: "no-such-open-commit" };
  if (openCommit.state === "applying") return { ok: true, state: "applying" };
  if (openCommit.state === "finished") {
    const modifiedAt = openCommit.modifiedAt ?? live.head.modifiedAt;
    return { ok: true, state: "finished", commit: openCommit.commit, modifiedAt };
  }
  const refusal = ledger.openCommits.takeRefusal(openCommit);
  if (refusal) return refusal;
  const writable = writableBranch(ledger, openCommit.operations);
  if (!writable.ok) return writable;
  const answer = publishOrBegin(ledger, { live, openCommit, stamps });
  if (answer.ok) {
    return { ok: true, state: "finished", commit: answer.commit, modifiedAt: answer.modifiedAt };
  }
  return answer.reason === "applying" ? { ok: true, state: "applying" } : answer;
}

/** The commit of a job whose operations were staged, once. To be called like `finishOpenCommit`. */
export function finishOutput(
  ledger: Ledger,
  { request, stamps }: { request: OutputCommit; stamps: Stamps },
): Committed | CommitRefused | Refused<"applying"> {
  const claimed = claimedBranch(ledger, request);
  if (!claimed.ok) return claimed;
  const { live } = claimed;
  const made = ledger.commits.byOrigin(live.gen, request.origin);
  if (made) return { ok: true, commit: made.id, modifiedAt: made.createdAt };
  const openCommit = ledger.openCommits.byOrigin(live.gen, request.origin);
  if (!openCommit) return { ok: false, reason: "no-such-open-commit" };
  if (openCommit.state === "applying") return APPLYING;
  const refusal = ledger.openCommits.takeRefusal(openCommit);
  if (refusal) return refusal;
  if (ledger.isFull(openCommit.operations)) return { ok: false, reason: "branch-full" };
  return publishOrBegin(ledger, { live, openCommit, stamps });
}

function publishOrBegin(
  ledger: Ledger,
  finishing: Finishing,
): Committed | CommitRefused | Refused<"applying"> {
  const { openCommit } = finishing;
  if (openCommit.operations <= MAX_COMMIT_OPERATIONS) return publishAtOnce(ledger, finishing);
  ledger.openCommits.startApplying(openCommit);
  ledger.applying.begin(openCommit);
  return APPLYING;
}

function publishAtOnce(ledger: Ledger, { live, openCommit, stamps }: Finishing): Committed | CommitRefused {
  const { gen, number, origin } = openCommit;
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
  ledger.openCommits.finish(openCommit, { ...answer, now: stamps.now });
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
