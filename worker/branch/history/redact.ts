import type { Tx } from "../../objects/transaction.ts";
import type { AnswerOf, RequestOf } from "../contract/answers.ts";
import type { HistoryCalls } from "../contract/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { commitNamed } from "../read/views.ts";
import { protectionRefusal } from "../settings/settings.ts";
import { annotationOfCommit } from "../tree/annotation.ts";

/*
 * Taking out what was said of a commit. A message may name a person, or hold a password. The row of the commit stays, with
 * its id, its time, who made it and all files. Its annotation becomes who took it out, and when.
 *
 * An annotation is said before there is a commit, and so it is kept in more places than one. Of a multipart upload it goes with the
 * upload, in the transaction of the commit. Of a large commit it goes with the last slice, which the gate waits for. In three
 * places it is forgotten here: a finished open commit is remembered for a day, a branch that was made from another one knows
 * for ever how it was asked for, and a branch that was deleted and came back out of an archive may still have the rows of
 * before. Exports end, since their readers may have the annotation already and would bring it back. SQLite may still have the text
 * in free pages of its file, so the branch owes a rewrite.
 */

/** Of the live generation. */
export function redactCommit(
  tx: Tx,
  ledger: Ledger,
  { request: { commit: name, key }, now }: { request: RequestOf<HistoryCalls["redact"]>; now: number },
): AnswerOf<HistoryCalls["redact"]> {
  const live = ledger.generations.live();
  if (!live) return { ok: false, reason: "no-such-branch" };
  const { gen, uid } = live;
  const refusal = protectionRefusal(tx, ledger, { gen, key });
  if (refusal) return refusal;
  const commit = commitNamed(ledger, { gen, name });
  if (!commit) return { ok: false, reason: "no-such-version" };
  const { id, seq } = commit;
  const annotation = annotationOfCommit({ key: null, annotation: ledger.commits.saidOf(commit) });
  const isSaid = annotation !== undefined && annotation.redacted === undefined;
  const redacted = isSaid ? { at: now, by: key } : (annotation?.redacted ?? null);
  if (isSaid) ledger.commits.redact(commit, { at: now, by: key });
  const copies = [
    ledger.commits.forgetAnnotationsBefore(id),
    ledger.openCommits.forgetAnnotation(gen, id),
    // Its first commit is the one that a fork begins with.
    seq === 1 && ledger.forks.forgetAnnotation(uid),
  ];
  if (isSaid || copies.includes(true)) {
    ledger.exports.endAll(gen);
    ledger.oweRewrite(tx, now);
  }
  return { ok: true, commit: id, redacted, change: isSaid ? "redacted" : "none" };
}
