import type { CommitRefused, Done, OutputCommit, Refused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";
import { finalState, pathRefusal } from "../write/plan.ts";
import { claimedBranch, type Stamps } from "../write/writable.ts";
import type { OpenCommit } from "./open-commit-store.ts";
import { stageBatch } from "./stage-batch.ts";

interface StageOutput extends Omit<OutputCommit, "staged"> {
  readonly anew: boolean;
}

/** Stages operations of a job's commit. To be called in a transaction. */
export function stageOutput(
  ledger: Ledger,
  { request, stamps }: { request: StageOutput; stamps: Stamps },
): Done | CommitRefused | Refused<"applying"> {
  const claimed = claimedBranch(ledger, request);
  if (!claimed.ok) return claimed;
  const { live } = claimed;
  const { origin, operations } = request;
  // What is made is made; commitOutput answers it.
  if (ledger.commits.byOrigin(live.gen, origin)) return { ok: true };
  const refusal = pathRefusal(operations);
  if (refusal) return refusal;
  if (ledger.isFull(operations.length)) return { ok: false, reason: "branch-full" };
  if (ledger.openCommits.byOrigin(live.gen, origin)?.state === "applying") {
    return { ok: false, reason: "applying" };
  }
  const openCommit = openCommitFor(ledger, { request, live, stamps });
  const staged = stageBatch(ledger, { openCommit, states: finalState(operations) });
  if (!staged.ok) return staged;
  ledger.openCommits.written(openCommit, { added: staged.added, now: stamps.now });
  return { ok: true };
}

/** What was staged for the job before, or a new open commit for it. */
function openCommitFor(
  ledger: Ledger,
  { request, live, stamps }: { request: StageOutput; live: Live; stamps: Stamps },
): OpenCommit {
  const { origin, anew } = request;
  const { now, id } = stamps;
  const before = ledger.openCommits.byOrigin(live.gen, origin);
  if (before && !anew) return before;
  // What it staged goes by the alarm, however much it is.
  if (before) ledger.openCommits.end(before, now);
  ledger.openCommits.open({ id: id(now), gen: live.gen, now, ttlMs: null, origin });
  const openCommit = ledger.openCommits.byOrigin(live.gen, origin);
  if (!openCommit) throw new Error(`no open commit was opened for ${origin}`);
  return openCommit;
}

/** Ends what earlier holders of the claim staged; what is being written already goes on. To be called in a transaction. */
export function endOutputs(ledger: Ledger, { gen, now }: { gen: number; now: number }): void {
  const applying = ledger.applying.get();
  const isWriting = applying !== null && applying.seq !== null;
  ledger.openCommits.endOutputs({ gen, except: isWriting ? applying.openCommit : undefined, now });
  if (applying && !isWriting && ledger.openCommits.get(applying.openCommit).state === "ended") {
    ledger.applying.clear();
  }
}
