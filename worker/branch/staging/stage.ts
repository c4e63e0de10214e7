import type { Tx } from "../../objects/transaction.ts";
import type { Moment } from "../context.ts";
import type { CommitRefused, CommitRequest, Committed, PutFile } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { finalState } from "./plan.ts";
import { takePreconditions } from "./preconditions.ts";
import { stageBatch } from "./stage-batch.ts";

type Answer = Committed | CommitRefused;
interface Staging {
  readonly live: Live;
  readonly openCommit: OpenCommit;
  readonly moment: Moment;
}

/** Puts one file that was admitted into an open commit. */
export function stageContent(
  tx: Tx,
  ledger: Ledger,
  { put, ...staging }: Staging & { put: PutFile },
): Answer {
  const { live, openCommit, moment } = staging;
  const { path, content, attributes, upload, condition } = put;
  const { digest, size } = content;
  const operation = { put: path, digest, size, attributes, ...(condition && { condition }) };
  const holding = takePreconditions(ledger, { live, openCommit, request: { operations: [operation] } });
  if (!holding.ok) return holding;
  const precondition = holding.preconditions.get(path) ?? null;
  const { now } = moment;
  const { gen } = live;
  let added = 0;
  for (const [there, state] of finalState(holding.operations)) {
    const keep = () => ledger.contents.add(content, { gen, now, named: 1 });
    const staged = ledger.staged.stage(openCommit, { path: there, state, precondition, keep });
    if (!staged.changed) ledger.contents.discard(content, now);
    added += staged.added;
  }
  return concludeStaging(tx, ledger, { ...staging, added, upload });
}

/** Puts many operations that were admitted into an open commit. */
export function stageChanges(
  tx: Tx,
  ledger: Ledger,
  { request, ...staging }: Staging & { request: CommitRequest },
): Answer {
  const { live, openCommit } = staging;
  const { upload, onFailedCondition } = request;
  const holding = takePreconditions(ledger, { live, openCommit, request });
  if (!holding.ok) return holding;
  const { preconditions } = holding;
  const staged = stageBatch(tx, ledger, {
    openCommit,
    states: finalState(holding.operations),
    preconditions,
  });
  if (!staged.ok) return staged;
  const answer = concludeStaging(tx, ledger, { ...staging, added: staged.added, upload });
  return onFailedCondition === "leave-out" ? { ...answer, leftOut: holding.leftOut } : answer;
}

/** The end of a call that has staged something, and its answer. */
export function concludeStaging(
  _: Tx,
  { openCommits, uploads, contents }: Ledger,
  { live, openCommit, moment, added, upload }: Staging & { added: number; upload: string | undefined },
): Committed {
  const { now } = moment;
  openCommits.written(openCommit, { added, now });
  if (upload !== undefined) uploads.close(upload, now);
  contents.removeReleased(now);
  return { ok: true, commit: null, modifiedAt: Math.max(live.head.modifiedAt, now) };
}
