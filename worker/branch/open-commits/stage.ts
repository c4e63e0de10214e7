import type { CommitRefused, CommitRequest, Committed, PutFile } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";
import { holdingOperations } from "../write/conditions.ts";
import { finalState, pathRefusal } from "../write/plan.ts";
import { closeUpload, isUploadOpen, type Stamps, writableBranch } from "../write/writable.ts";
import type { OpenCommit } from "./open-commit-store.ts";
import { stateInOpenCommit } from "./overlay.ts";
import { stageBatch } from "./stage-batch.ts";

type Answer = Committed | CommitRefused;

const NO_OPEN_COMMIT = { ok: false, reason: "no-such-open-commit" } as const;

/** The open commit of this name of the live branch, where it is open; null where none is asked for. */
export function findOpenCommit(ledger: Ledger, id: string): OpenCommit | undefined;
export function findOpenCommit(ledger: Ledger, id: string | null): OpenCommit | null | undefined;
export function findOpenCommit(ledger: Ledger, id: string | null): OpenCommit | null | undefined {
  if (id === null) return null;
  const live = ledger.live;
  const openCommit = live ? ledger.openCommits.find(id, live.gen) : undefined;
  return openCommit?.state === "open" && openCommit.origin === null ? openCommit : undefined;
}

/** Puts one file into an open commit. To be called in a transaction. */
export function stageFile(
  ledger: Ledger,
  { put, id, stamps }: { put: PutFile; id: string; stamps: Stamps },
): Answer {
  const { path, content, upload } = put;
  const refusal = pathRefusal([{ put: path, digest: content.digest, size: content.size }]);
  if (refusal) return refusal;
  const openCommit = findOpenCommit(ledger, id);
  if (!openCommit) return NO_OPEN_COMMIT;
  const writable = writableBranch(ledger, 1);
  if (!writable.ok) return writable;
  const { live } = writable;
  if (!isUploadOpen(ledger, { upload, live })) return { ok: false, reason: "no-such-upload" };
  if (ledger.contents.lacksKept(content, live.gen)) return { ok: false, reason: "no-such-content", path };
  return stageContent(ledger, { live, openCommit, put, stamps });
}

/** As `stageFile`, where all else was looked at. */
export function stageContent(
  ledger: Ledger,
  { live, openCommit, put, stamps }: { live: Live; openCommit: OpenCommit; put: PutFile; stamps: Stamps },
): Answer {
  const { path, content, attributes, upload, condition } = put;
  const { digest, size } = content;
  const operation = { put: path, digest, size, attributes, ...(condition && { condition }) };
  const holding = holdingOperations({ operations: [operation] }, (there) =>
    stateInOpenCommit(ledger, { live, openCommit, path: there }),
  );
  if (!holding.ok) return holding;
  const { now } = stamps;
  const { gen } = live;
  let added = 0;
  for (const [there, state] of finalState(holding.operations)) {
    const keep = () => ledger.contents.bring(content, { gen, now });
    const staged = ledger.staged.stage(openCommit, { path: there, state, keep });
    if (!staged.changed) ledger.contents.spurn(content, now);
    added += staged.added;
  }
  return concludeStaging(ledger, { live, openCommit, added, upload, now });
}

/** Puts many operations into an open commit. To be called in a transaction. */
export function stageChanges(
  ledger: Ledger,
  { request, id, stamps }: { request: CommitRequest; id: string; stamps: Stamps },
): Answer {
  const { operations, upload, onFailedCondition } = request;
  const refusal = pathRefusal(operations);
  if (refusal) return refusal;
  const openCommit = findOpenCommit(ledger, id);
  if (!openCommit) return NO_OPEN_COMMIT;
  const writable = writableBranch(ledger, operations.length);
  if (!writable.ok) return writable;
  const { live } = writable;
  if (!isUploadOpen(ledger, { upload, live })) return { ok: false, reason: "no-such-upload" };
  const holding = holdingOperations(request, (path) => stateInOpenCommit(ledger, { live, openCommit, path }));
  if (!holding.ok) return holding;
  const staged = stageBatch(ledger, { openCommit, states: finalState(holding.operations) });
  if (!staged.ok) return staged;
  const answer = concludeStaging(ledger, { live, openCommit, added: staged.added, upload, now: stamps.now });
  return onFailedCondition === "leave-out" ? { ...answer, leftOut: holding.leftOut } : answer;
}

function concludeStaging(
  ledger: Ledger,
  {
    live,
    openCommit,
    added,
    upload,
    now,
  }: { live: Live; openCommit: OpenCommit; added: number; upload: string | undefined; now: number },
): Committed {
  ledger.openCommits.written(openCommit, { added, now });
  closeUpload(ledger, { upload, now });
  ledger.contents.buryReleased(now);
  return { ok: true, commit: null, modifiedAt: Math.max(live.head.modifiedAt, now) };
}
