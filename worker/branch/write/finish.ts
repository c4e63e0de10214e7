import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Moment } from "../context.ts";
import type { Annotation, AnswerOf, Refused, RequestOf } from "../contract/answers.ts";
import type { CommitRefused, Committed } from "../contract/files.ts";
import type { ConditionsChanged, OpenCommitCalls, OpenCommitEnd } from "../contract/open-commits.ts";
import type { OutputCommit } from "../contract/pipelines.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import { commitNamed } from "../read/views.ts";
import { claimedBranch, writableBranch } from "../staging/admission.ts";
import { type FinalState, type PlannedChange, planCommit } from "../staging/plan.ts";
import { changedConditions } from "../staging/preconditions.ts";
import { endAnnotation } from "../tree/annotation.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { recordLineage, writeCommit } from "./commit.ts";
import { renewUnchanged } from "./renew.ts";

/**
 * The end of an open commit. If one transaction takes it, it is written here and now, like a commit of one call. If it
 * is larger, it is only begun: work/large-commit/applier.ts checks and writes it in slices. Either way no other large commit may be
 * under way, which the gate sees to.
 */

const APPLYING = { ok: false, reason: "applying" } as const;

interface Finishing {
  readonly live: Live;
  readonly openCommit: OpenCommit;
  readonly moment: Moment;
  /** Of the commit. */
  readonly annotation?: Annotation | undefined;
}

/**
 * Finishes the open commit of a client. May be asked again: a finished one has the same answer for a day, and the annotation
 * of the call that finished it.
 */
export function finishOpenCommit(
  tx: Tx,
  ledger: Ledger,
  { id, annotation: ended, moment }: { id: string; annotation?: Annotation | undefined; moment: Moment },
): OpenCommitEnd | CommitRefused | ConditionsChanged {
  const live = ledger.generations.live();
  const openCommit = live ? ledger.openCommits.find(id, live.gen) : undefined;
  if (!live || !openCommit || openCommit.origin !== null) return { ok: false, reason: "no-such-open-commit" };
  if (openCommit.state === "applying") return { ok: true, state: "applying" };
  if (openCommit.state === "finished") {
    const modifiedAt = openCommit.modifiedAt ?? live.head.modifiedAt;
    return { ok: true, state: "finished", commit: openCommit.commit, modifiedAt };
  }
  const refusal = ledger.openCommits.takeRefusal(openCommit);
  if (refusal) return refusal;
  const { operations } = openCommit;
  const of = ledger.staged.hasPuts(openCommit.number) ? "writes" : "deletions";
  const writable = writableBranch(tx, ledger, { operations, of, key: ended?.key });
  if (!writable.ok) return writable;
  // Of a large commit, the conditions are looked at in slices (work/large-commit/check.ts).
  const changed = isLarge(openCommit) ? undefined : changedConditions(tx, ledger, openCommit);
  if (changed) return changed;
  const annotation = endAnnotation(openCommit.annotation, ended);
  const answer = writeOrBegin(tx, ledger, { live, openCommit, moment, annotation });
  if (answer.ok) {
    return { ok: true, state: "finished", commit: answer.commit, modifiedAt: answer.modifiedAt };
  }
  return answer.reason === "applying" ? { ok: true, state: "applying" } : answer;
}

/** The commit of a job whose operations were staged, made once: if it is there already, it is the answer. */
export function finishOutput(
  tx: Tx,
  ledger: Ledger,
  { request, moment }: { request: OutputCommit; moment: Moment },
): Committed | CommitRefused | Refused<"applying"> {
  const claimed = claimedBranch(tx, ledger, request);
  if (!claimed.ok) return claimed;
  const { live } = claimed;
  const made = ledger.commits.byOrigin(live.gen, request.origin);
  if (made) return { ok: true, commit: made.id, modifiedAt: made.createdAt };
  recordLineage(tx, ledger, { live, request });
  const openCommit = ledger.openCommits.byOrigin(live.gen, request.origin);
  if (!openCommit) return { ok: false, reason: "no-such-open-commit" };
  if (openCommit.state === "applying") return APPLYING;
  const refusal = ledger.openCommits.takeRefusal(openCommit);
  if (refusal?.reason === "conditions-changed") throw new Error("an output has no conditions");
  if (refusal) return refusal;
  if (ledger.isFull(openCommit.operations)) return { ok: false, reason: "branch-full" };
  return writeOrBegin(tx, ledger, { live, openCommit, moment });
}

/** Writes what is staged as a commit, or begins with it if it is large. */
export function writeOrBegin(
  tx: Tx,
  ledger: Ledger,
  finishing: Finishing,
): Committed | CommitRefused | Refused<"applying"> {
  const { openCommit, annotation } = finishing;
  if (!isLarge(openCommit)) return writeStaged(tx, ledger, finishing);
  ledger.openCommits.startApplying(openCommit);
  ledger.applying.begin(openCommit, annotation);
  return APPLYING;
}

/** Whether it takes more than one transaction. */
function isLarge({ operations }: OpenCommit): boolean {
  return operations > MAX_COMMIT_OPERATIONS;
}

function writeStaged(
  tx: Tx,
  ledger: Ledger,
  { live, openCommit, moment, annotation }: Finishing,
): Committed | CommitRefused {
  const { gen, number, origin } = openCommit;
  const state = ledger.staged.all(number);
  const planned = planCommit(tx, ledger, { gen, state, contents: "known" });
  if (!planned.ok) return planned;
  const { changes } = planned;
  releaseUnchanged(tx, ledger, { gen, state, changes });
  renewUnchanged(tx, ledger, { gen, state, changes, now: moment.now });
  ledger.staged.clear(number);
  const { modifiedAt } = live.head;
  const isMade = changes.length > 0 || origin !== null;
  // Files that are born take over what was kept for them.
  const keep = () => {};
  const answer: Committed = isMade
    ? writeCommit(tx, ledger, { live, changes, moment, origin: origin ?? undefined, annotation, keep })
    : { ok: true, commit: null, modifiedAt };
  ledger.openCommits.finish(openCommit, { ...answer, now: moment.now });
  ledger.contents.removeReleased(moment.now);
  return answer;
}

/** A file that is there already keeps its own content: what staging kept for it is released. */
function releaseUnchanged(
  _: Tx,
  { contents }: Ledger,
  { gen, state, changes }: { gen: number; state: FinalState; changes: readonly PlannedChange[] },
): void {
  const changed = new Set(changes.map(({ path }) => path));
  for (const [path, now] of state) {
    if (now && kindOf(path) === "file" && !changed.has(path)) contents.release({ ...now, gen });
  }
}

/** How long the open commit of a revert stays if that can't be written; milliseconds. */
const REVERT_MS = 60 * 60 * 1000;

/** Begins a commit that goes back to an earlier one (work/large-commit/revert.ts): closes the gate for it. */
export function beginRevert(
  tx: Tx,
  ledger: Ledger,
  {
    request: { commit, annotation },
    moment,
  }: { request: RequestOf<OpenCommitCalls["revert"]>; moment: Moment },
): AnswerOf<OpenCommitCalls["revert"]> {
  const writable = writableBranch(tx, ledger, { operations: 1, key: annotation?.key });
  if (!writable.ok) return writable;
  const { live } = writable;
  const target = commitNamed(ledger, { gen: live.gen, name: commit });
  if (!target) return { ok: false, reason: "no-such-version" };
  const { now } = moment;
  const id = moment.id(now);
  const said = { message: `revert to ${target.id}`, ...annotation };
  ledger.openCommits.open({ id, gen: live.gen, now, ttlMs: REVERT_MS, origin: null, annotation: said });
  const openCommit = ledger.openCommits.find(id, live.gen);
  if (!openCommit) throw new Error(`no open commit was made for the revert to ${commit}`);
  ledger.openCommits.startApplying(openCommit);
  ledger.applying.beginRevert(openCommit, { target: target.seq, head: live.head.seq });
  return { ok: true, openCommit: id };
}
