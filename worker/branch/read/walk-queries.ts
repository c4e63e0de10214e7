/**
 * The queries behind a walk, all of (?1 gen, ?2 lower, ?3 upper, ?4 seq, ?5 limit): rows of the commit `seq` whose
 * path is in [lower, upper), in path order.
 */

/** What is alive at HEAD and was at the commit. */
export const ALIVE = `
  SELECT path, lower(hex(digest)) AS digest, size, born FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS NULL AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT ?5`;

/**
 * As ALIVE, but behind a path with a "/" at or after character ?6 it goes on behind the folder that ends there. "0"
 * is the byte after "/", and paths hold no control characters.
 */
export const ALIVE_FOLDED = `
  WITH RECURSIVE walk (path) AS (
    SELECT (
      SELECT path FROM files INDEXED BY head
      WHERE gen = ?1 AND died IS NULL AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT 1
    )
    UNION ALL
    SELECT (
      SELECT path FROM files INDEXED BY head
      WHERE gen = ?1 AND died IS NULL AND path < ?3 AND born <= ?4 AND path >= CASE instr(substr(walk.path, ?6), '/')
        WHEN 0 THEN walk.path || char(1)
        ELSE substr(walk.path, 1, ?6 - 2 + instr(substr(walk.path, ?6), '/')) || '0'
      END
      ORDER BY path LIMIT 1
    )
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT alive.path AS path, lower(hex(alive.digest)) AS digest, alive.size AS size, alive.born AS born
  FROM walk CROSS JOIN files AS alive INDEXED BY head
    ON alive.gen = ?1 AND alive.path = walk.path AND alive.died IS NULL
  LIMIT ?5`;

/** What was alive at the commit and died since. Sorts all of it. */
export const DIED_SINCE = `
  SELECT path, lower(hex(digest)) AS digest, size, born FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died > ?4 AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT ?5`;

/** What is alive at HEAD, whenever it was born: for the caller to choose from. */
export const ALIVE_ALL = `
  SELECT path, lower(hex(digest)) AS digest, size, born FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS NULL AND path >= ?2 AND path < ?3 ORDER BY path LIMIT ?5`;

/** What was alive at the commit and died at the next one. */
export const DIED_NEXT = `
  SELECT path, lower(hex(digest)) AS digest, size, born FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died = ?4 + 1 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT ?5`;

/** What was alive at the commit and was born after ?6. Sorts all that was born after it. */
export const BORN_SINCE = `
  SELECT path, lower(hex(digest)) AS digest, size, born FROM files INDEXED BY by_born
  WHERE gen = ?1 AND born > ?6 AND born <= ?4 AND path >= ?2 AND path < ?3 AND (died IS NULL OR died > ?4)
  ORDER BY path LIMIT ?5`;

/** Of (?1 open commit, ?2 lower, ?3 upper, ?4 whether they are deletions, ?5 limit): what an open commit has staged. */
export const STAGED = `
  SELECT path, lower(hex(digest)) AS digest, size, 0 AS born FROM staged
  WHERE session = ?1 AND gone = ?4 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT ?5`;

/**
 * A walk over distinct paths, one seek each, and a look-up of each path's version. Rows come as the walk goes: in
 * order, and no further than the limit; those of paths where nothing was at the commit have an empty digest.
 */
export const PAST = `
  WITH RECURSIVE walk (path) AS (
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path > walk.path AND path < ?3 ORDER BY path LIMIT 1)
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT walk.path AS path, lower(hex(version.digest)) AS digest, version.size AS size, version.born AS born
  FROM walk LEFT JOIN files AS version ON version.gen = ?1 AND version.path = walk.path AND version.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = walk.path AND born <= ?4
  ) AND (version.died IS NULL OR version.died > ?4)
  WHERE walk.path IS NOT NULL LIMIT ?5`;
