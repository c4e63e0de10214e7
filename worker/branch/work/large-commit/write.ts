import type { ContentId } from "../../../../protocol/content.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Applying } from "../../open-commits/applying-store.ts";
import { tellsRenewals } from "../../write/renew.ts";

/** Most paths that one slice writes: what a transaction of some tens of milliseconds takes. */
const PATHS = 1000;

/** Of (?1 open commit, ?2 whether they are deletions, ?3 limit): how many of the first paths there are, and the last of them. */
const FIRST_STAGED = `
  SELECT count(*) AS paths, max(path) AS last FROM (
    SELECT path FROM staged WHERE openCommit = ?1 AND gone = ?2 ORDER BY path LIMIT ?3
  )`;

/** Of (?1 gen, ?2 open commit, ?3 last path): puts over files that are there, and whether they are the same. */
const STAGED_OVER = `
  SELECT lower(hex(staged.digest)) AS digest, staged.size AS size, substr(staged.path, -1) <> '/' AS isFile,
    staged.digest = there.digest AND staged.size = there.size AND staged.attributes IS there.attributes AS same
  FROM staged CROSS JOIN files AS there INDEXED BY head
    ON there.gen = ?1 AND there.path = staged.path AND there.died IS +NULL
  WHERE openCommit = ?2 AND gone = 0 AND staged.path <= ?3`;

/** Of (?1 gen, ?2 open commit, ?3 last path, ?4 seq): the death of what is replaced. */
const REPLACE = `
  UPDATE files SET died = ?4 FROM staged
  WHERE staged.openCommit = ?2 AND staged.gone = 0 AND staged.path <= ?3
    AND files.gen = ?1 AND files.path = staged.path AND files.died IS +NULL
    AND NOT (
      files.digest = staged.digest AND files.size = staged.size AND files.attributes IS staged.attributes
    )`;

/** As REPLACE, after it, with the time as ?4: what is put as it is there already is young again. */
const RENEW = `
  UPDATE files SET renewed = ?4 FROM staged
  WHERE staged.openCommit = ?2 AND staged.gone = 0 AND staged.path <= ?3 AND staged.bytesAt IS NULL
    AND files.gen = ?1 AND files.path = staged.path AND files.died IS +NULL`;

/** As REPLACE, after it: the birth of what is put and is not there. Bytes of which tags alone are set stay as old as they are. */
const BEAR = `
  INSERT INTO files (gen, path, born, died, kind, digest, size, attributes, bytesAt)
  SELECT ?1, path, ?4, NULL, substr(path, -1) = '/', digest, size, attributes,
    CASE WHEN bytesAt IS NOT NULL THEN max(bytesAt, ifnull((
      SELECT renewed FROM files AS dead WHERE dead.gen = ?1 AND dead.path = staged.path AND dead.died = ?4
    ), 0)) END
  FROM staged
  WHERE openCommit = ?2 AND gone = 0 AND path <= ?3 AND NOT EXISTS (
    SELECT 1 FROM files AS there INDEXED BY head
    WHERE there.gen = ?1 AND there.path = staged.path AND there.died IS +NULL
  )`;

/** As STAGED_OVER: how many of the deletions have something to delete. */
const TO_DELETE = `
  SELECT count(*) AS deaths FROM staged CROSS JOIN files AS there INDEXED BY head
    ON there.gen = ?1 AND there.path = staged.path AND there.died IS +NULL
  WHERE openCommit = ?2 AND gone = 1 AND staged.path <= ?3`;

/** As REPLACE: the death of what is deleted. */
const DELETE = `
  UPDATE files SET died = ?4 FROM staged
  WHERE staged.openCommit = ?2 AND staged.gone = 1 AND staged.path <= ?3
    AND files.gen = ?1 AND files.path = staged.path AND files.died IS +NULL`;

/** Of (?1 open commit, ?2 whether they are deletions, ?3 last path). */
const FORGET = "DELETE FROM staged WHERE openCommit = ?1 AND gone = ?2 AND path <= ?3";

interface StagedOver extends ContentId {
  readonly isFile: number;
  readonly same: number;
}

/** A commit whose rows are being written. */
export type Writing = Applying & { readonly seq: number };

/**
 * Writes some more of an open commit as rows of the commit that is to come, and takes them from what is staged, so that
 * each is written once wherever a crash comes. Returns whether anything was left to write.
 */
export function writeSlice(
  tx: Tx,
  ledger: Ledger,
  { writing, now }: { writing: Writing; now: number },
): boolean {
  return writePuts(tx, ledger, { ...writing, now }) || writeDeletes(tx, ledger, writing);
}

function writePuts(
  _: Tx,
  ledger: Ledger,
  { gen, seq, openCommit, now }: Writing & { readonly now: number },
): boolean {
  const { sql, contents, applying } = ledger;
  const first = firstStaged(sql, { openCommit, gone: 0 });
  if (!first) return false;
  const over = sql.query<StagedOver>(STAGED_OVER, [gen, openCommit, first.last]);
  const same = over.filter((row) => row.same);
  sql.execute(REPLACE, [gen, openCommit, first.last, seq]);
  if (same.length > 0 && tellsRenewals(ledger, gen)) sql.execute(RENEW, [gen, openCommit, first.last, now]);
  sql.execute(BEAR, [gen, openCommit, first.last, seq]);
  // A file that is born takes over what was kept for it; what is there already keeps its own content.
  for (const { digest, size, isFile } of same) if (isFile) contents.release({ digest, size, gen });
  sql.execute(FORGET, [openCommit, 0, first.last]);
  applying.count({ births: first.paths - same.length, deaths: over.length - same.length });
  return true;
}

function writeDeletes(_: Tx, { sql, applying }: Ledger, { gen, seq, openCommit }: Writing): boolean {
  const first = firstStaged(sql, { openCommit, gone: 1 });
  if (!first) return false;
  const [found] = sql.query<{ deaths: number }>(TO_DELETE, [gen, openCommit, first.last]);
  sql.execute(DELETE, [gen, openCommit, first.last, seq]);
  sql.execute(FORGET, [openCommit, 1, first.last]);
  applying.count({ births: 0, deaths: found?.deaths ?? 0 });
  return true;
}

function firstStaged(
  sql: Ledger["sql"],
  { openCommit, gone }: { openCommit: number; gone: 0 | 1 },
): { paths: number; last: string } | undefined {
  const [row] = sql.query<{ paths: number; last: string | null }>(FIRST_STAGED, [openCommit, gone, PATHS]);
  return row && row.last !== null ? { paths: row.paths, last: row.last } : undefined;
}
