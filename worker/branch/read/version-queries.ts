/**
 * The queries behind a listing of versions, of (?1 gen, ?2 lower, ?3 upper, ?4 limit): rows of `files`, alive and
 * dead, whose path is in [lower, upper), by path, the oldest of a path first.
 */

/** All of them. */
export const VERSIONS = `
  SELECT path, born, died, lower(hex(digest)) AS digest, size FROM files
  WHERE gen = ?1 AND path >= ?2 AND path < ?3 ORDER BY path, born LIMIT ?4`;

/**
 * As VERSIONS, but of a folder that begins with a "/" at or after character ?5 only the first row: a walk over paths
 * and folders, one seek each. "0" is the byte after "/", and paths hold no control characters. Rows come as the walk
 * goes: in order, and no further than the limit.
 */
export const VERSIONS_FOLDED = `
  WITH RECURSIVE walk (path) AS (
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (
      SELECT path FROM files
      WHERE gen = ?1 AND path < ?3 AND path >= CASE instr(substr(walk.path, ?5), '/')
        WHEN 0 THEN walk.path || char(1)
        ELSE substr(walk.path, 1, ?5 - 2 + instr(substr(walk.path, ?5), '/')) || '0'
      END
      ORDER BY path LIMIT 1
    )
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT version.path AS path, version.born AS born, version.died AS died,
    lower(hex(version.digest)) AS digest, version.size AS size
  FROM walk CROSS JOIN files AS version ON version.gen = ?1 AND version.path = walk.path
    AND version.born <= CASE instr(substr(walk.path, ?5), '/')
      WHEN 0 THEN 9007199254740991
      ELSE (SELECT min(born) FROM files WHERE gen = ?1 AND path = walk.path)
    END
  LIMIT ?4`;

/** Of (?1 gen, ?2 path, ?3 seq, ?4 limit): the rows of one path that were born before `seq`, the newest first. */
export const OLDER_VERSIONS = `
  SELECT path, born, died, lower(hex(digest)) AS digest, size FROM files
  WHERE gen = ?1 AND path = ?2 AND born < ?3 ORDER BY born DESC LIMIT ?4`;
