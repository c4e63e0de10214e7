import type { PathDifference } from "../contract.ts";

/** The queries behind a difference: first the paths of a page, of (?1 gen, ?2 the least path, ?3 limit, …), then what they were and are. */

/** What the commit ?4 wrote or deleted: both indexes have it in order of the path. */
export const CHANGED_IN_ONE = `
  SELECT path FROM files INDEXED BY by_born WHERE gen = ?1 AND born = ?4 AND path >= ?2
  UNION
  SELECT path FROM files INDEXED BY by_died WHERE gen = ?1 AND died = ?4 AND path >= ?2
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

interface DifferenceRow {
  readonly path: string;
  readonly beforeDigest: string | null;
  readonly beforeSize: number | null;
  readonly afterDigest: string | null;
  readonly afterSize: number | null;
}

export function differencesOf(rows: readonly DifferenceRow[]): PathDifference[] {
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
