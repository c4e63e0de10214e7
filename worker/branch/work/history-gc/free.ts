import { contentName } from "../../../../protocol/content.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { forgetCommits } from "../../retention/mark.ts";
import { NO_VERSION } from "../../tree/file-store.ts";
import { justAfter } from "../../tree/path-ranges.ts";

/**
 * The freeing of what no kept commit has. A row of files lives from its birth to its death. It goes if it died at the horizon
 * or before, and no held commit lies in its life. In slices, each a transaction that says how far it came:
 *
 * The retention horizon of a generation is the least of what `keep` says and of the low-water mark of each pipeline
 * that reads the branch. Of a deleted generation it is the least of its end and of these marks. Everybody who reads by a
 * commit asks one function whether it is kept (retention/kept.ts): not if it is below the horizon, unless something names it.
 *
 * 1. The horizon rises (horizon.ts). From then on commits below it are not there for anybody, unless something names them.
 * 2. Held commits that nothing names any more are let go of (mark.ts).
 * 3. Commits below the horizon are marked (mark.ts).
 * 4. Dead rows go in the order of their deaths, up to the commits that are marked, and with them what they alone kept. The
 *    row of a commit goes with the last version that it wrote or ended.
 * 5. Of a deleted generation the rows go that lived at its end, when no subscriber needs any of it.
 *
 * Commits are marked before rows go, so a process can die anywhere: any code finds either a whole tree or no commit.
 *
 * A name that comes or goes in between changes nothing: names are only given to commits that are kept, and what
 * was held for one that goes is looked at again.
 */

/** Most rows of files that one slice looks at: what a transaction of some milliseconds takes. */
const ROWS = 40;
/** Most rows of other kinds. */
const OTHERS = 1000;

interface Row {
  readonly path: string;
  readonly born: number;
  /** Null of a row that lived at the end of its generation. */
  readonly died: number | null;
  readonly version: number | null;
  /** 0: a file, which keeps its content. */
  readonly kind: number;
  /** 1: its death is no version of the path. */
  readonly unmarked: number | null;
  readonly digest: string;
  readonly size: number;
  readonly isHeld: 0 | 1;
}

const COLUMNS = "path, born, died, version, unmarked, kind, lower(hex(digest)) AS digest, size";

/** Of (?1 gen, ?2 and ?3 the first death and path, ?4 last death, ?5 limit): dead rows, in the order of the index. */
const DEAD = `
  SELECT ${COLUMNS}, EXISTS (
    SELECT 1 FROM held WHERE held.gen = ?1 AND held.seq >= born AND held.seq < died
  ) AS isHeld
  FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died IS NOT NULL AND (died, path) >= (?2, ?3) AND died <= ?4
  ORDER BY died, path LIMIT ?5`;

/** Of (?1 gen, ?2 and ?3 the first death and path, ?4 and ?5 the last): removes those of them that are not held. */
const FORGET_DEAD = `
  DELETE FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died IS NOT NULL AND (died, path) >= (?2, ?3) AND (died, path) <= (?4, ?5)
    AND NOT EXISTS (SELECT 1 FROM held WHERE held.gen = ?1 AND held.seq >= born AND held.seq < died)`;

/** Of (?1 gen, ?2 path to begin behind, ?3 limit): rows that did not die. */
const ALIVE = `
  SELECT ${COLUMNS}, EXISTS (SELECT 1 FROM held WHERE held.gen = ?1 AND held.seq >= born) AS isHeld
  FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS +NULL AND path > ?2 ORDER BY path LIMIT ?3`;

/** Of (?1 gen, ?2 path to begin behind, ?3 last path): removes those of them that are not held. */
const FORGET_ALIVE = `
  DELETE FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS +NULL AND path > ?2 AND path <= ?3
    AND NOT EXISTS (SELECT 1 FROM held WHERE held.gen = ?1 AND held.seq >= born)`;

/** Of (?1 gen, ?2 path, ?3 death, ?4 new death, ?5 whether that is no version). */
const PROLONG = `
  UPDATE files INDEXED BY by_died SET died = ?4, unmarked = ?5 WHERE gen = ?1 AND died IS NOT NULL AND died = ?3 AND path = ?2`;

/**
 * Of (?1 gen, ?2 horizon, ?3 limit): lineages that hold up to the horizon at most, and for no held commit. A row holds from its
 * commit on until the next one.
 */
const FORGET_LINEAGES = `
  DELETE FROM lineages WHERE gen = ?1 AND seq IN (
    SELECT span.seq FROM (
      SELECT seq, lead(seq) OVER (ORDER BY seq) AS next FROM lineages WHERE gen = ?1 AND seq <= ?2
    ) AS span
    WHERE next IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM held WHERE held.gen = ?1 AND held.seq >= span.seq AND held.seq < next
    ) LIMIT ?3
  )`;

interface Slice {
  readonly gen: number;
  readonly now: number;
}

/** Removes some more dead rows. Returns whether any were left to look at. */
export function freeSlice(tx: Tx, ledger: Ledger, { gen, now }: Slice): boolean {
  const { sql, horizons } = ledger;
  const progress = horizons.get(gen);
  const { marked, diedFrom, diedPath } = progress;
  if (marked === 0 || diedFrom > marked) return false;
  const rows = sql.query<Row & { died: number }>(DEAD, [gen, diedFrom, diedPath, marked, ROWS]);
  const last = rows.at(-1);
  if (last) {
    sql.execute(FORGET_DEAD, [gen, diedFrom, diedPath, last.died, last.path]);
    const freed = rows.filter(({ isHeld }) => !isHeld);
    if (horizons.hasHeld(gen)) closeGaps(ledger, gen, freed);
    letGo(tx, ledger, { gen, now, freed });
  }
  const isLast = rows.length < ROWS;
  const next =
    isLast || !last
      ? { diedFrom: marked + 1, diedPath: "" }
      : { diedFrom: last.died, diedPath: justAfter(last.path) };
  horizons.save({ ...progress, ...next });
  return true;
}

/** Removes some more rows that lived at the end of a deleted generation. Returns whether any were left to look at. */
export function freeAliveSlice(tx: Tx, ledger: Ledger, { gen, now }: Slice): boolean {
  const { sql, horizons } = ledger;
  const progress = horizons.get(gen);
  const { alivePath } = progress;
  if (alivePath === null) return false;
  const rows = sql.query<Row>(ALIVE, [gen, alivePath, ROWS]);
  const last = rows.at(-1);
  if (last) {
    sql.execute(FORGET_ALIVE, [gen, alivePath, last.path]);
    letGo(tx, ledger, { gen, now, freed: rows.filter(({ isHeld }) => !isHeld) });
  }
  horizons.save({ ...progress, alivePath: rows.length < ROWS || !last ? null : last.path });
  return true;
}

/** Removes some more lineages that no kept commit has. Returns whether there may be more. */
export function freeLineages(_: Tx, { sql, horizons }: Ledger, gen: number): boolean {
  const { marked } = horizons.get(gen);
  return sql.execute(FORGET_LINEAGES, [gen, marked, OTHERS]).rowsWritten >= OTHERS;
}

/**
 * Removes what is left of a deleted generation of which no row is left: its commits but for the deletion, which says when
 * the branch was last changed, its tags, those that went, and its lineages. Returns whether there may be more.
 */
export function purgeRest(_: Tx, { sql, horizons }: Ledger, gen: number): boolean {
  const removed = [
    sql.run`
      DELETE FROM commits WHERE gen = ${gen} AND kind <> 1 AND seq IN (
        SELECT seq FROM commits WHERE gen = ${gen} AND kind <> 1 ORDER BY seq LIMIT ${OTHERS})`,
    sql.run`
      DELETE FROM lineages WHERE gen = ${gen} AND seq IN (
        SELECT seq FROM lineages WHERE gen = ${gen} ORDER BY seq LIMIT ${OTHERS})`,
    sql.run`
      DELETE FROM tags WHERE gen = ${gen} AND name IN (
        SELECT name FROM tags WHERE gen = ${gen} ORDER BY name LIMIT ${OTHERS})`,
    sql.run`
      DELETE FROM untagged WHERE gen = ${gen} AND seq IN (
        SELECT seq FROM untagged WHERE gen = ${gen} ORDER BY seq LIMIT ${OTHERS})`,
  ];
  if (removed.includes(true)) return true;
  horizons.save({ ...horizons.get(gen), purged: 1 });
  return false;
}

/** What freed rows alone kept goes too: contents, and the rows of their commits. */
function letGo(tx: Tx, ledger: Ledger, { gen, now, freed }: Slice & { freed: readonly Row[] }): void {
  const { sql, contents } = ledger;
  const refs = new Map<string, number>();
  const seqs = new Set<number>();
  for (const { path, born, died, version, kind, digest, size } of freed) {
    seqs.add(born);
    if (died !== null) seqs.add(died);
    if (version !== null) {
      seqs.add(version);
      sql.run`DELETE FROM revived WHERE gen = ${gen} AND version = ${version} AND path = ${path} AND born = ${born}`;
    }
    if (kind !== 0) continue;
    const name = contentName({ digest, size });
    refs.set(name, (refs.get(name) ?? 0) + 1);
  }
  if (freed.length === 0) return;
  // News of what was erased has its name.
  if (freed.some(({ version }) => version === NO_VERSION)) ledger.oweRewrite(tx, now);
  forgetCommits(tx, ledger, { gen, seqs });
  contents.releaseMany([...refs], gen);
  contents.removeDead(now);
}

/**
 * Lets a held row live on to the end of those that went and followed it without a gap: else a list of versions would show
 * that the path was deleted where it was replaced. No kept commit lies in between, so no tree changes.
 */
function closeGaps({ sql }: Ledger, gen: number, freed: readonly (Row & { died: number })[]): void {
  /** Of each path, the chains of rows that went: the death of the last one, by the birth of the first one. */
  const chains = new Map<string, Map<number, Pick<Row & { died: number }, "died" | "unmarked">>>();
  for (const { path, born, died, unmarked } of freed) {
    // What an erasure left has no life, and follows nothing.
    if (born === died) continue;
    const ends = chains.get(path) ?? new Map();
    chains.set(path, ends);
    const first = [...ends].find(([, end]) => end.died === born)?.[0] ?? born;
    ends.set(first, { died, unmarked });
  }
  for (const [path, ends] of chains) {
    for (const [born, { died, unmarked }] of ends) sql.execute(PROLONG, [gen, path, born, died, unmarked]);
  }
}
