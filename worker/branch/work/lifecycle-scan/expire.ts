import { MAX_COMMIT_OPERATIONS } from "../../../../protocol/files.ts";
import type { ObjectTag } from "../../../../protocol/object-tags.ts";
import type { LifecycleRule } from "../../../core/lifecycle-rules.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Moment } from "../../context.ts";
import type { Annotation } from "../../contract/answers.ts";
import type { CommitRefused, Committed } from "../../contract/files.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { OpenCommit } from "../../open-commits/open-commit-store.ts";
import type { LifecycleScan, ScanProgress } from "../../settings/lifecycle-scan-store.ts";
import { writableBranch } from "../../staging/admission.ts";
import { stageBatch } from "../../staging/stage.ts";
import type { Live } from "../../tree/generation-store.ts";
import { justAfter, rangeOf } from "../../tree/path-ranges.ts";
import { writeOrBegin } from "../../write/finish.ts";

/** Most files that one slice looks at: what a transaction of some ten milliseconds takes. */
const FILES = 1000;
/** How long the open commit of a scan stays if nobody goes on with it; milliseconds. */
const KEPT_MS = 60 * 60 * 1000;

/**
 * Of (?1 gen, ?2 and ?3 a range of paths, ?4 limit): files at HEAD, and when each was last written. What is current again
 * since a newer version was erased is as old as it was.
 */
const WRITTEN = `
  SELECT files.path AS path, files.born AS born, 
    max(ifnull(files.bytesAt, commits.createdAt), ifnull(files.renewed, 0)) AS writtenAt
  FROM files INDEXED BY head
  CROSS JOIN commits ON commits.gen = files.gen AND commits.seq = ifnull(files.version, files.born)
  WHERE files.gen = ?1 AND files.died IS +NULL AND files.path >= ?2 AND files.path < ?3
  ORDER BY files.path LIMIT ?4`;

/** As WRITTEN, with JSON of their tags. */
const WRITTEN_AND_TAGS = WRITTEN.replace(
  "AS writtenAt",
  "AS writtenAt, files.attributes ->> '$.tags' AS tags",
);

interface WrittenRow {
  readonly path: string;
  readonly born: number;
  readonly writtenAt: number;
  readonly tags?: string | null;
}

/** Of (?1 gen, ?2 open commit, ?3 and ?4 a range of paths, ?5 cutoff): deletions of what somebody has written to since. */
const LEAVE_OUT = `
  DELETE FROM staged
  WHERE openCommit = ?2 AND gone = 1 AND path > ?3 AND path <= ?4 AND NOT EXISTS (
    SELECT 1 FROM files AS there INDEXED BY head
    WHERE there.gen = ?1 AND there.path = staged.path AND there.died IS +NULL AND there.born = staged.precondition
      AND ifnull(there.renewed, 0) < ?5
  )`;

/** Of (?1 open commit, ?2 path, ?3 limit): the last of the next paths that it deletes; null if there are none. */
const NEXT_DELETED = `
  SELECT max(path) AS last FROM (
    SELECT path FROM staged WHERE openCommit = ?1 AND gone = 1 AND path > ?2 ORDER BY path LIMIT ?3
  )`;

/**
 * Looks at some more files of a scan, and stages the deletion of those that are due, each with the version that it is
 * about. The gate is open meanwhile: who writes to one of them afterwards keeps what he wrote, since it is looked again in
 * the transaction that deletes.
 */
export function findExpired(tx: Tx, ledger: Ledger, { live, scan, work, rule, moment }: Finding): void {
  const { gen } = live;
  const { lower, upper } = rangeOf(rule.prefix);
  const from = work.path === "" ? lower : justAfter(work.path);
  const query = rule.tags ? WRITTEN_AND_TAGS : WRITTEN;
  const looked = ledger.sql.query<WrittenRow>(query, [gen, from, upper, FILES]);
  const files = looked.filter(({ tags }) => hasTags(tags, rule.tags));
  const cutoff = work.cutoff ?? Number.NEGATIVE_INFINITY;
  const due = files.filter(({ writtenAt }) => writtenAt < cutoff);
  const young = files.filter(({ writtenAt }) => writtenAt >= cutoff).map(({ writtenAt }) => writtenAt);
  const last = looked.at(-1);
  const through = looked.length < FILES;
  const openCommit =
    due.length === 0 ? work.openCommit : stageDeletions(tx, ledger, { gen, work, rule, due, moment });
  // What was staged is gone: it begins again.
  if (due.length > 0 && openCommit === null) {
    ledger.lifecycleScans.begin(scan, { ...work, seen: live.head.seq });
    return;
  }
  const oldest = Math.min(...young, work.oldest ?? Number.POSITIVE_INFINITY);
  ledger.lifecycleScans.save(scan, {
    path: last?.path ?? work.path,
    upload: "",
    through,
    oldest: Number.isFinite(oldest) ? oldest : null,
    openCommit,
  });
}

/** Whether a file, of whose tags this is the JSON, has those that a rule asks for. */
function hasTags(text: string | null | undefined, asked: readonly ObjectTag[] = []): boolean {
  const tags = new Map<string, string>(JSON.parse(text ?? "[]"));
  return asked.every(([key, value]) => tags.get(key) === value);
}

interface Finding {
  readonly live: Live;
  readonly scan: LifecycleScan;
  readonly work: ScanProgress;
  readonly rule: LifecycleRule;
  readonly moment: Moment;
}

/** Returns the open commit that has them; null if the one that it was is not there any more. */
function stageDeletions(
  tx: Tx,
  ledger: Ledger,
  {
    gen,
    work,
    rule,
    due,
    moment: { now, id },
  }: Pick<Finding, "work" | "rule" | "moment"> & {
    gen: number;
    due: readonly { readonly path: string; readonly born: number }[];
  },
): string | null {
  const name = work.openCommit ?? id(now);
  if (work.openCommit === null) {
    ledger.openCommits.open({
      id: name,
      gen,
      now,
      ttlMs: KEPT_MS,
      origin: null,
      annotation: annotationOf(rule, undefined),
    });
  }
  const openCommit = ledger.openCommits.findOpen(name, gen);
  if (!openCommit) return null;
  const states = new Map(due.map(({ path }) => [path, null]));
  const preconditions = new Map(due.map(({ path, born }) => [path, born]));
  const staged = stageBatch(tx, ledger, { openCommit, states, preconditions });
  if (!staged.ok) throw new Error(`a deletion is refused: ${JSON.stringify(staged)}`);
  ledger.openCommits.written(openCommit, { added: staged.added, now });
  return name;
}

/** What the commit of a scan says: the rule, and the key that put it. A message is one line, and an id may have more. */
function annotationOf({ id }: LifecycleRule, key: string | undefined): Annotation {
  const shown = id.toWellFormed().replace(/[\u0000-\u001f\u007f]/g, " ");
  return { ...(key !== undefined && { key }), message: `expired by the lifecycle rule '${shown}'` };
}

/** What became of the files that a scan has found: a commit of them, maybe none, one that is being applied, or why it can't be. */
type Concluded = Committed | { readonly ok: false; readonly reason: "applying" | "again" } | CommitRefused;

/**
 * Deletes what a scan has found, as one commit. It is a write of the key that put the rules: a branch that is protected
 * for somebody else keeps its files. If that is too much for one transaction it is only begun, and `leaveOutWritten` looks
 * again, slice by slice, while the gate is closed.
 */
export function expireFound(
  tx: Tx,
  ledger: Ledger,
  { live, work, rule, key, moment }: Omit<Finding, "scan"> & { readonly key: string | undefined },
): Concluded {
  const none: Committed = { ok: true, commit: null, modifiedAt: live.head.modifiedAt };
  if (work.openCommit === null || work.cutoff === null) return none;
  const { gen } = live;
  const openCommit = ledger.openCommits.find(work.openCommit, gen);
  if (!openCommit || openCommit.state === "applying") return { ok: false, reason: "again" };
  if (openCommit.state === "finished") {
    ledger.openCommits.remove(openCommit.number);
    return none;
  }
  const { operations } = openCommit;
  const writable = writableBranch(tx, ledger, { operations, of: "deletions", key });
  if (!writable.ok) {
    ledger.openCommits.end(openCommit, moment.now);
    return writable;
  }
  if (operations <= MAX_COMMIT_OPERATIONS) {
    leaveOutWritten(tx, ledger, { openCommit, cutoff: work.cutoff, after: "", limit: operations });
  }
  const annotation = annotationOf(rule, key);
  const answer = writeOrBegin(tx, ledger, { live, openCommit, moment, annotation });
  if (answer.ok) ledger.openCommits.remove(openCommit.number);
  else if (answer.reason !== "applying") throw new Error(`deletions are refused: ${JSON.stringify(answer)}`);
  return answer;
}

/**
 * Takes deletions out of what a scan has staged, of files that somebody has written to since they were found.
 * `after`: it has looked at paths up to this one. Returns how far it came; undefined if nothing is left to look at.
 */
export function leaveOutWritten(
  _: Tx,
  { sql }: Ledger,
  {
    openCommit: { gen, number },
    cutoff,
    after,
    limit,
  }: { openCommit: Pick<OpenCommit, "gen" | "number">; cutoff: number; after: string; limit: number },
): string | undefined {
  const last = sql.query<{ last: string | null }>(NEXT_DELETED, [number, after, limit])[0]?.last ?? undefined;
  if (last !== undefined) sql.execute(LEAVE_OUT, [gen, number, after, last, cutoff]);
  return last;
}
