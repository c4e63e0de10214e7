import { contentName } from "../../../protocol/content.ts";
import type { Content } from "../../blobs/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { OwnedContent } from "../contents/content-store.ts";
import type { Moment } from "../context.ts";
import type { Annotation } from "../contract/answers.ts";
import type { CommitRefused, CommitRequest, Committed, PutFile } from "../contract/files.ts";
import type { OutputCommit } from "../contract/pipelines.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { type Admitted, admit, claimedBranch, pathRefusal } from "../staging/admission.ts";
import { finalState, type PlannedChange, planCommit } from "../staging/plan.ts";
import { holdingOperations } from "../staging/preconditions.ts";
import { stageChanges, stageContent } from "../staging/stage.ts";
import { newCommitId } from "../tree/commit-id.ts";
import type { Position } from "../tree/commit-store.ts";
import { type FileState, kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { renewUnchanged, unchangedAt } from "./renew.ts";

/**
 * The commits that one call makes. Each is asked whether it may be (admission), whether its conditions hold, and what
 * it would change (plan); then its rows are written. All of it is one transaction, so nothing comes in between.
 *
 * A commit is first reduced to one operation a path: the last one wins. Then it is checked against HEAD: no file where a
 * directory is. Then it is written: a death for each row that it replaces or deletes, a birth for each that it puts. The
 * same content with the same attributes at the same path is no change. Up to 10,000 operations are one transaction; more
 * are a large commit (work/large-commit/applier.ts).
 *
 * After the transaction the object wakes each subscribed pipeline. If a wake-up is lost, the outbox sends it again. One that
 * comes twice does no harm, because it only says that there may be something new: the pipeline keeps a cursor and reads
 * the branch's feed from it.
 */

type Answer = Committed | CommitRefused;
/** Writes one file: as a commit of its own, or into the open commit that the put names. */
export function putFile(tx: Tx, ledger: Ledger, { put, moment }: { put: PutFile; moment: Moment }): Answer {
  const { path, content, upload, openCommit, annotation } = put;
  const { digest, size } = content;
  const operations = [{ put: path, digest, size }];
  const admitted = admit(tx, ledger, { operations, openCommit, upload, content, annotation });
  return admitted.ok ? putContent(tx, ledger, { ...admitted, put, moment }) : admitted;
}

/**
 * Writes one file that was admitted, and closes the upload that its content came by. Also for the object of a multipart
 * upload, which is admitted by its parts.
 */
export function putContent(
  tx: Tx,
  ledger: Ledger,
  { live, openCommit, put, moment }: Admitted & { put: PutFile; moment: Moment },
): Answer {
  if (openCommit) return stageContent(tx, ledger, { live, openCommit, put, moment });
  const { path, content, attributes, upload, condition, annotation } = put;
  const { gen } = live;
  const { now } = moment;
  const { digest, size } = content;
  const operation = { put: path, digest, size, attributes, ...(condition && { condition }) };
  const holding = holdingOperations({ operations: [operation] }, (there) => ledger.files.head(gen, there));
  if (!holding.ok) return holding;
  const state = finalState(holding.operations);
  const planned = planCommit(tx, ledger, { gen, state, contents: "known" });
  if (!planned.ok) return planned;
  const { changes } = planned;
  if (changes.length === 0) ledger.contents.discard(content, now);
  renewUnchanged(tx, ledger, { gen, state, changes, now });
  const keep = () => ledger.contents.add(content, { gen, now, named: 1 });
  return writeChanges(tx, ledger, { live, changes, upload, moment, annotation, keep });
}

/** Many operations: as one commit, or into the open commit that the request names. */
export function commitChanges(
  tx: Tx,
  ledger: Ledger,
  { request, moment }: { request: CommitRequest; moment: Moment },
): Answer {
  const admitted = admit(tx, ledger, request);
  if (!admitted.ok) return admitted;
  const { live, openCommit } = admitted;
  if (openCommit) return stageChanges(tx, ledger, { live, openCommit, request, moment });
  const { gen } = live;
  const { upload, onFailedCondition, annotation } = request;
  const holding = holdingOperations(request, (path) => ledger.files.head(gen, path));
  if (!holding.ok) return holding;
  const state = finalState(holding.operations);
  const planned = planCommit(tx, ledger, { gen, state, contents: "look-up" });
  if (!planned.ok) return planned;
  const { changes } = planned;
  renewUnchanged(tx, ledger, { gen, state, changes, now: moment.now });
  const kept = new Map<string, number>();
  const keep = (content: OwnedContent): void => {
    const name = contentName(content);
    kept.set(name, (kept.get(name) ?? 0) + 1);
  };
  const answer = writeChanges(tx, ledger, { live, changes, upload, moment, annotation, keep, kept });
  return onFailedCondition === "leave-out" ? { ...answer, leftOut: holding.leftOut } : answer;
}

/** The commit of a job, made once: if it is there already, it is the answer. */
export function commitOutput(
  tx: Tx,
  ledger: Ledger,
  { request, moment }: { request: OutputCommit; moment: Moment },
): Answer {
  const claimed = claimedBranch(tx, ledger, request);
  if (!claimed.ok) return claimed;
  const { live } = claimed;
  const { origin, operations } = request;
  const made = ledger.commits.byOrigin(live.gen, origin);
  if (made) return { ok: true, commit: made.id, modifiedAt: made.createdAt };
  recordLineage(tx, ledger, { live, request });
  const refusal = pathRefusal(operations);
  if (refusal) return refusal;
  if (ledger.isFull(operations.length)) return { ok: false, reason: "branch-full" };
  const state = finalState(operations);
  return withBrought(tx, ledger, {
    ...{ contents: request.contents, gen: live.gen, now: moment.now },
    work(): Answer {
      const planned = planCommit(tx, ledger, { gen: live.gen, state, contents: "look-up" });
      if (!planned.ok) return planned;
      const keep = (content: OwnedContent) => ledger.contents.keep(content, 1);
      return writeCommit(tx, ledger, { live, changes: planned.changes, moment, origin, keep });
    },
  });
}

/** Works with contents that came along with a call. What nothing keeps afterwards goes again, as after a refusal. */
export function withBrought<T>(
  _: Tx,
  { contents: stored }: Ledger,
  {
    contents = [],
    gen,
    now,
    work,
  }: { contents: readonly Content[] | undefined; gen: number; now: number; work: () => T },
): T {
  if (contents.length === 0) return work();
  for (const content of contents) stored.add(content, { gen, now, named: 0 });
  const done = work();
  for (const { digest, size } of contents) stored.release({ digest, size, gen });
  stored.removeReleased(now);
  return done;
}

/** Only the jobs of the claim's holder write here, one after the other: the next commit is this job's, or none. */
export function recordLineage(
  _: Tx,
  { lineages }: Ledger,
  { live: { gen, head }, request: { lineage } }: { live: Live; request: OutputCommit },
): void {
  if (lineage) lineages.record({ gen, seq: head.seq + 1 }, lineage);
}

interface Written {
  readonly live: Live;
  readonly changes: readonly PlannedChange[];
  readonly moment: Moment;
  readonly annotation?: Annotation | undefined;
  /** Lets a file that is born have its content. */
  readonly keep: (content: OwnedContent) => void;
}

/** Commits what changes, if anything does, and closes the upload: what it kept is now kept by the files. */
function writeChanges(
  tx: Tx,
  ledger: Ledger,
  {
    upload,
    kept = new Map(),
    ...written
  }: Written & {
    readonly upload: string | undefined;
    /** How many files have each content, by name, of those that `keep` left for this. */
    readonly kept?: ReadonlyMap<string, number>;
  },
): Committed {
  const { live, changes, moment } = written;
  const answer: Committed =
    changes.length === 0
      ? { ok: true, commit: null, modifiedAt: unchangedAt(ledger, { live, now: moment.now }) }
      : writeCommit(tx, ledger, written);
  if (upload === undefined) {
    if (kept.size > 0) ledger.contents.keepMany([...kept], { gen: live.gen, named: 1 });
  } else {
    ledger.uploads.handOver(upload, { kept, gen: live.gen, now: moment.now });
    ledger.contents.removeReleased(moment.now);
  }
  return answer;
}

/** Writes a planned commit, in the transaction of its plan: a death for what it replaces or deletes, a birth for what it puts. */
export function writeCommit(
  tx: Tx,
  ledger: Ledger,
  { live, changes, moment, keep, ...by }: Written & { readonly origin?: string | undefined },
): Committed {
  const { gen } = live;
  const seq = live.head.seq + 1;
  let births = 0;
  let deaths = 0;
  for (const { path, before, now } of changes) {
    if (before) {
      ledger.files.kill(path, { gen, born: before.born, seq });
      deaths++;
    }
    if (now) {
      const state = before ? asOldAs(ledger, { now, before: { gen, seq: before.born }, path }) : now;
      ledger.files.bear(path, { gen, seq, state });
      // The dead row keeps its content: the past is still read.
      if (kindOf(path) === "file") keep({ ...now, gen });
      births++;
    }
  }
  return moveHead(tx, ledger, { live, births, deaths, moment, ...by });
}

/** Of other tags alone: the age that the bytes have now. Somebody may have written the same ones since the tags were staged. */
function asOldAs(
  { files }: Ledger,
  { now, before, path }: { now: FileState; before: Position; path: string },
): FileState {
  if ((now.bytesAt ?? null) === null) return now;
  return { ...now, bytesAt: files.versionAt(before, path).writtenAt };
}

interface NewHead {
  readonly live: Live;
  /** Rows of files that the commit wrote and ended. */
  readonly births: number;
  readonly deaths: number;
  readonly moment: Moment;
  /** The job that makes it. */
  readonly origin?: string | undefined;
  readonly annotation?: Annotation | undefined;
}

/** Makes the commit whose rows are written: HEAD moves to it. */
export function moveHead(
  _: Tx,
  { clock, commits, generations }: Pick<Ledger, "clock" | "commits" | "generations">,
  { live, births, deaths, moment, origin, annotation }: NewHead,
): Committed {
  const { gen, head } = live;
  const createdAt = clock.next(moment.now);
  const seq = head.seq + 1;
  const id = newCommitId({ gen, seq }, createdAt);
  const next = { seq, births: head.births + births, deaths: head.deaths + deaths };
  commits.insert({ gen, ...next, id, kind: "commit", createdAt, origin, annotation });
  generations.advance({ ...next, id, modifiedAt: createdAt }, moment.now);
  return { ok: true, commit: id, modifiedAt: createdAt };
}
