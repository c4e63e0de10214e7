import type { CommitRefused, CommitRequest, Committed, OutputCommit, PutFile } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";
import { type Application, applyCommit } from "./apply.ts";
import { holdingOperations } from "./conditions.ts";
import { type FinalState, finalState, type PlannedChange, pathRefusal, planCommit } from "./plan.ts";
import { claimedBranch, closeUpload, isUploadOpen, type Stamps, writableBranch } from "./writable.ts";

type Answer = Committed | CommitRefused;

/** Writes one file as a commit of its own. To be called in a transaction. */
export function putFile(ledger: Ledger, { put, stamps }: { put: PutFile; stamps: Stamps }): Answer {
  const { path, content, upload } = put;
  const refusal = pathRefusal([{ put: path, digest: content.digest, size: content.size }]);
  if (refusal) return refusal;
  const writable = writableBranch(ledger, 1);
  if (!writable.ok) return writable;
  const { live } = writable;
  if (!isUploadOpen(ledger, { upload, live })) return { ok: false, reason: "no-such-upload" };
  if (ledger.contents.lacksKept(content, live.gen)) return { ok: false, reason: "no-such-content", path };
  return putContent(ledger, { live, put, stamps });
}

/**
 * Writes one file as a commit of its own, and closes the upload that its content came by. To be called in a transaction,
 * where the branch is writable, the path can be stored, the upload is open and what the content keeps is there.
 */
export function putContent(
  ledger: Ledger,
  { live, put, stamps }: { live: Live; put: PutFile; stamps: Stamps },
): Answer {
  const { path, content, attributes, upload, condition } = put;
  const { gen } = live;
  const { now } = stamps;
  const { digest, size } = content;
  const operation = { put: path, digest, size, attributes, ...(condition && { condition }) };
  const holding = holdingOperations({ operations: [operation] }, (there) => ledger.files.head(gen, there));
  if (!holding.ok) return holding;
  const state = finalState(holding.operations);
  const planned = planCommit(ledger, { gen, state, contentComes: "with-it" });
  if (!planned.ok) return planned;
  const { changes } = planned;
  if (changes.length === 0) ledger.contents.spurn(content, now);
  const keep = () => ledger.contents.bring(content, { gen, now });
  return conclude(ledger, { live, changes, upload, stamps, keep });
}

/** Many operations as one commit. To be called in a transaction. */
export function commitChanges(
  ledger: Ledger,
  { request, stamps }: { request: CommitRequest; stamps: Stamps },
): Answer {
  const { operations, upload, onFailedCondition } = request;
  const refusal = pathRefusal(operations);
  if (refusal) return refusal;
  const writable = writableBranch(ledger, operations.length);
  if (!writable.ok) return writable;
  const { live } = writable;
  const { gen } = live;
  if (!isUploadOpen(ledger, { upload, live })) return { ok: false, reason: "no-such-upload" };
  const holding = holdingOperations(request, (path) => ledger.files.head(gen, path));
  if (!holding.ok) return holding;
  const planned = planHere(ledger, { gen, state: finalState(holding.operations) });
  if (!planned.ok) return planned;
  const { changes } = planned;
  const answer = conclude(ledger, { live, changes, upload, stamps, keep: keeper(ledger) });
  return onFailedCondition === "leave-out" ? { ...answer, leftOut: holding.leftOut } : answer;
}

/** The commit of a job, once. To be called in a transaction. */
export function commitOutput(
  ledger: Ledger,
  { request, stamps }: { request: OutputCommit; stamps: Stamps },
): Answer {
  const claimed = claimedBranch(ledger, request);
  if (!claimed.ok) return claimed;
  const { live } = claimed;
  const { origin, operations } = request;
  const made = ledger.commits.byOrigin(live.gen, origin);
  if (made) return { ok: true, commit: made.id, modifiedAt: made.createdAt };
  const refusal = pathRefusal(operations);
  if (refusal) return refusal;
  if (ledger.isFull(operations.length)) return { ok: false, reason: "branch-full" };
  const planned = planHere(ledger, { gen: live.gen, state: finalState(operations) });
  if (!planned.ok) return planned;
  return applyStamped(ledger, { live, changes: planned.changes, stamps, origin, keep: keeper(ledger) });
}

function planHere(ledger: Ledger, { gen, state }: { gen: number; state: FinalState }) {
  return planCommit(ledger, { gen, state, contentComes: "before" });
}

interface Conclusion {
  readonly live: Live;
  readonly changes: readonly PlannedChange[];
  readonly upload: string | undefined;
  readonly stamps: Stamps;
  readonly keep: Application["keep"];
}

/** For contents that are in the branch. */
function keeper(ledger: Ledger): Application["keep"] {
  return (content) => ledger.contents.keep(content);
}

/** Commits what changes, if anything does, and closes the upload. */
function conclude(ledger: Ledger, { live, changes, upload, stamps, keep }: Conclusion): Committed {
  const { modifiedAt } = live.head;
  const answer: Committed =
    changes.length === 0
      ? { ok: true, commit: null, modifiedAt }
      : applyStamped(ledger, { live, changes, stamps, keep });
  closeUpload(ledger, { upload, now: stamps.now });
  return answer;
}

/** Makes a commit of what was planned. To be called in the transaction of its plan. */
export function applyStamped(
  ledger: Ledger,
  { live, changes, stamps, keep, origin }: Omit<Conclusion, "upload"> & { origin?: string | undefined },
): Committed {
  const createdAt = ledger.clock.next(stamps.now);
  const id = stamps.id(createdAt);
  const stamp = { id, createdAt, ...(origin !== undefined && { origin }) };
  const { modifiedAt } = applyCommit(ledger, { live, changes, stamp, keep });
  return { ok: true, commit: id, modifiedAt };
}
