import type { Sql } from "../../../objects/sql.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { CommitRefused } from "../../contract/files.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Applying, CheckProgress, ConditionProgress } from "../../open-commits/applying-store.ts";
import { ancestorsOf } from "../../staging/plan.ts";
import { checkConditions } from "../../staging/preconditions.ts";
import { kindOf } from "../../tree/file-store.ts";
import { justAfter, subtree } from "../../tree/path-ranges.ts";
import { leaveOutWritten } from "../lifecycle-scan/expire.ts";

/** Most conditions that one slice looks at. */
const CONDITIONS = 2000;
/** Most staged paths, most directories above them, and most paths below one of them that one slice looks at. */
const PATHS = 500;
const DIRECTORIES = 1000;
const BELOW = 1000;

/** Of (?1 gen, ?2 open commit, ?3 path, ?4 limit): what is staged after a path, and the first path below it at HEAD. */
const STAGED_AND_BELOW = `
  SELECT path, (
    SELECT below.path FROM files AS below INDEXED BY head
    WHERE below.gen = ?1 AND below.died IS +NULL AND below.path >= staged.path || '/'
      AND below.path < staged.path || '0'
    ORDER BY below.path LIMIT 1
  ) AS below
  FROM staged WHERE openCommit = ?2 AND gone = 0 AND path > ?3 ORDER BY path LIMIT ?4`;

/** Of (?1 gen, ?2 open commit, ?3 JSON of paths): the first that will be a file once the open commit is finished. */
const FILE_AMONG = `
  SELECT value AS path FROM json_each(?3) AS asked
  WHERE EXISTS (SELECT 1 FROM staged WHERE openCommit = ?2 AND gone = 0 AND path = asked.value)
    OR (
      EXISTS (SELECT 1 FROM files INDEXED BY head WHERE gen = ?1 AND died IS +NULL AND path = asked.value)
      AND NOT EXISTS (SELECT 1 FROM staged WHERE openCommit = ?2 AND gone = 1 AND path = asked.value)
    )
  LIMIT 1`;

/** Of (?1 gen, ?2 open commit, ?3 lower, ?4 upper, ?5 limit): paths at HEAD, and whether the open commit deletes them. */
const BELOW_AT_HEAD = `
  SELECT path, EXISTS (
    SELECT 1 FROM staged WHERE openCommit = ?2 AND gone = 1 AND staged.path = files.path
  ) AS gone
  FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS +NULL AND path >= ?3 AND path < ?4 ORDER BY path LIMIT ?5`;

interface StagedRow {
  readonly path: string;
  readonly below: string | null;
}

type Conflict = Extract<CommitRefused, { reason: "path-conflict" }>;
/** How far the check came, `done` if nothing is left to look at, or what is in the way. */
type Found = CheckProgress | "done" | Conflict;

/**
 * Looks at some more of an open commit. First at its conditions: whether HEAD has what it had when each was checked. Then
 * at what it puts: whether a file is in the way above it, or something below it, in the tree as it will be. After the last
 * slice its rows may be written. The gate is closed all the while, so what was found to hold holds until then. A
 * condition that does not hold, and a conflict, open it again. What a lifecycle rule deletes is not refused for what
 * somebody has written since: that is left out.
 */
export function checkSlice(
  tx: Tx,
  ledger: Ledger,
  { applying, now }: { applying: Applying; now: number },
): void {
  const { gen, openCommit } = applying;
  const progress = ledger.applying.conditions();
  const cutoff = ledger.lifecycleScans.ofOpenCommit(applying.id)?.work?.cutoff ?? null;
  const conditions =
    cutoff === null
      ? checkConditions(ledger, { gen, openCommit, progress, limit: CONDITIONS })
      : leaveOut(tx, ledger, { applying, cutoff, progress });
  const found =
    conditions === "hold"
      ? check(ledger.sql, { applying, progress: ledger.applying.progress() })
      : conditions;
  if (found === "done") {
    const live = ledger.generations.live();
    if (live?.gen !== gen) throw new Error(`generation ${gen} is gone while a commit of it is applied`);
    ledger.applying.startWriting({ seq: live.head.seq + 1 });
    ledger.reads.dropAll();
  } else if ("reason" in found) {
    ledger.openCommits.reopen(openCommit, { refusal: found, now });
    ledger.applying.clear();
  } else if ("changed" in found) ledger.applying.saveConditions(found);
  else ledger.applying.saveProgress(found);
}

function leaveOut(
  tx: Tx,
  ledger: Ledger,
  { applying, cutoff, progress }: { applying: Applying; cutoff: number; progress: ConditionProgress },
): ConditionProgress | "hold" {
  const { gen, openCommit: number } = applying;
  const after = progress.comparedTo;
  const comparedTo = leaveOutWritten(tx, ledger, {
    openCommit: { gen, number },
    cutoff,
    after,
    limit: CONDITIONS,
  });
  return comparedTo === undefined ? "hold" : { ...progress, comparedTo };
}

interface Check {
  readonly applying: Applying;
  readonly progress: CheckProgress;
}

function check(sql: Sql, { applying, progress }: Check): Found {
  const { gen, openCommit } = applying;
  let { checked, below } = progress;
  const staged = sql.query<StagedRow>(STAGED_AND_BELOW, [gen, openCommit, checked, PATHS]);
  const above = new Map<string, string>();
  for (const row of staged) {
    addAncestors(above, row.path);
    const under = checkBelow(sql, { applying, row, from: below });
    if (under !== "clear") return checkAbove(sql, { applying, above }) ?? under(checked);
    checked = row.path;
    below = null;
    if (above.size >= DIRECTORIES) break;
  }
  const isLast = staged.length < PATHS && checked === (staged.at(-1)?.path ?? checked);
  return checkAbove(sql, { applying, above }) ?? (isLast ? "done" : { checked, below });
}

/** Adds the directories that a path is in, each with this path, up to the first that is known: then all above it are. */
function addAncestors(above: Map<string, string>, path: string): void {
  for (const directory of ancestorsOf(path)) {
    if (above.has(directory)) return;
    above.set(directory, path);
  }
}

/** `above`: directories, and for each a path that is in it. */
function checkAbove(
  sql: Sql,
  { applying, above }: { applying: Applying; above: ReadonlyMap<string, string> },
): Conflict | undefined {
  const asked = JSON.stringify([...above.keys()]);
  const [file] = sql.query<{ path: string }>(FILE_AMONG, [applying.gen, applying.openCommit, asked]);
  const path = file && above.get(file.path);
  return path === undefined
    ? undefined
    : { ok: false, reason: "path-conflict", path, other: file?.path ?? "" };
}

/** `clear` if nothing stays below a file that is put; else a function of the path before this one, which says how the slice ends. */
function checkBelow(
  sql: Sql,
  { applying, row, from }: { applying: Applying; row: StagedRow; from: string | null },
): "clear" | ((checked: string) => Found) {
  const { path, below } = row;
  if (below === null || kindOf(path) === "dir") return "clear";
  const { lower, upper } = subtree(`${path}/`);
  const { gen, openCommit } = applying;
  const rows = sql.query<{ path: string; gone: number }>(BELOW_AT_HEAD, [
    gen,
    openCommit,
    from ?? lower,
    upper,
    BELOW,
  ]);
  const other = rows.find(({ gone }) => !gone)?.path;
  if (other !== undefined) return () => ({ ok: false, reason: "path-conflict", path, other });
  const last = rows.at(-1);
  return rows.length < BELOW || !last ? "clear" : (checked) => ({ checked, below: justAfter(last.path) });
}
