import type { SqlValue } from "../../objects/sql.ts";
import type { Refused } from "../contract/answers.ts";
import type { CommitDiff, DiffCommits, PathDifference } from "../contract/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { pageOf } from "../read/page.ts";
import { AFTER_ALL_TEXTS, justAfter } from "../tree/path-ranges.ts";
import { seqOf } from "./log.ts";

/** The paths of a page, each of (?1 gen, ?2 the least path, ?3 limit, …); then what they were and are. */

/** What the commit ?4 wrote or deleted, below ?5: both indexes have it in order of the path. */
export const CHANGED_IN_ONE = `
  SELECT path FROM files INDEXED BY by_born WHERE gen = ?1 AND born = ?4 AND path >= ?2 AND path < ?5
  UNION
  SELECT path FROM files INDEXED BY by_died WHERE gen = ?1 AND died = ?4 AND path >= ?2 AND path < ?5
  ORDER BY path LIMIT ?3`;

/** What the commits after ?4 up to ?5 wrote or deleted. Sorts all of it. */
export const CHANGED_IN_SPAN = `
  SELECT path FROM files INDEXED BY by_born WHERE gen = ?1 AND born > ?4 AND born <= ?5 AND path >= ?2
  UNION
  SELECT path FROM files INDEXED BY by_died WHERE gen = ?1 AND died > ?4 AND died <= ?5 AND path >= ?2
  ORDER BY path LIMIT ?3`;

/** Every path that ever was, one seek each. */
export const EVERY_PATH = `
  WITH RECURSIVE walk (path) AS (
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path >= ?2 ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path > walk.path ORDER BY path LIMIT 1)
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT path FROM walk WHERE path IS NOT NULL LIMIT ?3`;

/** Of (?1 gen, ?2 one commit, ?3 another, ?4 JSON of the paths): what is not the same in both, one look-up a side. */
export const DIFFERENCES = `
  SELECT asked.value AS path, lower(hex(a.digest)) AS beforeDigest, a.size AS beforeSize,
    lower(hex(b.digest)) AS afterDigest, b.size AS afterSize
  FROM json_each(?4) AS asked
  LEFT JOIN files AS a ON a.gen = ?1 AND a.path = asked.value AND (a.died IS NULL OR a.died > ?2) AND a.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = asked.value AND born <= ?2)
  LEFT JOIN files AS b ON b.gen = ?1 AND b.path = asked.value AND (b.died IS NULL OR b.died > ?3) AND b.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = asked.value AND born <= ?3)
  WHERE a.digest IS NOT b.digest OR a.size IS NOT b.size OR a.attributes IS NOT b.attributes
  ORDER BY asked.key`;

/** Changes between two commits that are sorted anew for each page; beyond so many it goes from path to path. */
const SORTED_CHANGES = 50_000;
/** Rounds of one page: a span in which little differs costs no more than so many. */
const MAX_ROUNDS = 5;

/**
 * What differs between two commits of the live generation, by path: births and deaths in between, reduced to what
 * each path was and is. A commit and its parent, and spans with few changes, cost what changed; a span with many, the
 * paths it passes.
 */
export function diffCommits(
  ledger: Ledger,
  { from, to, after, limit }: DiffCommits,
): CommitDiff | Refused<"no-such-branch" | "no-such-version"> {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const newer = seqOf(ledger, { live, id: to });
  const older = from === null ? 0 : seqOf(ledger, { live, id: from });
  if (newer === undefined || older === undefined) return { ok: false, reason: "no-such-version" };
  const span = { gen: live.gen, older, newer };
  const found: PathDifference[] = [];
  let next: string | null = after;
  for (let rounds = 0; next !== null && found.length < limit && rounds < MAX_ROUNDS; rounds++) {
    const paths = touchedPaths(ledger, { ...span, after: next, limit: limit - found.length });
    found.push(...differences(ledger, { ...span, paths: paths.paths }));
    next = paths.next;
  }
  return { ok: true, changes: found, next };
}

interface Span {
  readonly gen: number;
  readonly older: number;
  readonly newer: number;
}

/** Paths at which something was written or deleted in a span, or may have been, in order. */
function touchedPaths(
  ledger: Ledger,
  { gen, older, newer, after, limit }: Span & { after: string; limit: number },
): { paths: string[]; next: string | null } {
  const [first, last] = older < newer ? [older, newer] : [newer, older];
  if (first === last) return { paths: [], next: null };
  const lower = after === "" ? "" : justAfter(after);
  const { text, values } = pathQuery(ledger, { gen, older: first, newer: last });
  const rows = ledger.sql
    .query<{ path: string }>(text, [gen, lower, limit + 1, ...values])
    .map(({ path }) => path);
  const { page, last: next = null } = pageOf(rows, limit);
  return { paths: [...page], next };
}

function pathQuery(ledger: Ledger, { gen, older, newer }: Span): { text: string; values: SqlValue[] } {
  if (newer === older + 1) return { text: CHANGED_IN_ONE, values: [newer, AFTER_ALL_TEXTS] };
  const [before, after] = [older, newer].map((seq) => ledger.commits.at({ gen, seq }));
  const births = (after?.births ?? 0) - (before?.births ?? 0);
  const deaths = (after?.deaths ?? 0) - (before?.deaths ?? 0);
  if (births + deaths > SORTED_CHANGES) return { text: EVERY_PATH, values: [] };
  return { text: CHANGED_IN_SPAN, values: [older, newer] };
}

/** What is not the same at these paths in two commits, `older` and `newer`, whichever of them came first. */
export function differences(
  ledger: Ledger,
  { gen, older, newer, paths }: Span & { paths: readonly string[] },
): PathDifference[] {
  return differencesOf(ledger.sql.query(DIFFERENCES, [gen, older, newer, JSON.stringify(paths)]));
}

interface DifferenceRow {
  readonly path: string;
  readonly beforeDigest: string | null;
  readonly beforeSize: number | null;
  readonly afterDigest: string | null;
  readonly afterSize: number | null;
}

function differencesOf(rows: readonly DifferenceRow[]): PathDifference[] {
  return rows.map(({ path, beforeDigest, beforeSize, afterDigest, afterSize }) => ({
    path,
    before: stateOf(beforeDigest, beforeSize),
    after: stateOf(afterDigest, afterSize),
  }));
}

function stateOf(digest: string | null, size: number | null): PathDifference["before"] {
  // Of what is not there SQL's hex makes an empty text.
  return digest === null || digest === "" || size === null ? null : { digest, size };
}
