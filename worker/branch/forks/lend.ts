import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Sql } from "../../objects/sql.ts";
import { type ContentStore, contentOf } from "../contents/content-store.ts";
import type { FileOnLoan, RootSlice } from "../contract/forks.ts";
import { kindOf } from "../tree/file-store.ts";
import { justAfter } from "../tree/path-ranges.ts";
import type { Root } from "./root-store.ts";

/** Most paths that one slice goes through, and about the most text of it: what either side handles in some milliseconds. */
const PATHS = 100;
export const TEXT_LENGTH = 500_000;
/** Most slices that one answer brings: the more, the less the way between two distant objects counts. */
export const SLICES = 20;

/**
 * Of (?1 gen, ?2 lower, ?3 limit, ?4 seq): the versions that a commit has, from path to path like `PAST` of read/walk.ts,
 * so that what died is never walked. Paths where nothing was have no digest.
 */
const PATHS_ON_LOAN = `
  WITH RECURSIVE walk (path) AS (
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path >= ?2 ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path > walk.path ORDER BY path LIMIT 1)
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT walk.path AS path, lower(hex(version.digest)) AS digest, version.size AS size,
    version.attributes AS attributes, octet_length(contents.body) AS bytes
  FROM walk LEFT JOIN files AS version ON version.gen = ?1 AND version.path = walk.path AND version.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = walk.path AND born <= ?4
  ) AND (version.died IS NULL OR version.died > ?4)
  LEFT JOIN ${contentOf("version")}
  WHERE walk.path IS NOT NULL LIMIT ?3`;

interface PathRow {
  readonly path: string;
  /** Empty if nothing was there. */
  readonly digest: string;
  readonly size: number;
  readonly attributes: string | null;
  /** Of the content's body as it is stored; null if there is none, as for directories. */
  readonly bytes: number | null;
}

/** Some of what a commit has, after a path: for a fork that is made from it. */
export function readSlice(
  { sql, contents }: { readonly sql: Sql; readonly contents: ContentStore },
  { root: { gen, seq }, after }: { root: Root; after: string },
): { slice: RootSlice; length: number; isLast: boolean } {
  const lower = after === "" ? "" : justAfter(after);
  const walked = sql.query<PathRow>(PATHS_ON_LOAN, [gen, lower, PATHS, seq]);
  const files: FileOnLoan[] = [];
  const wanted = new Map<string, ContentId>();
  let length = 0;
  let last = after;
  for (const { path, digest, size, attributes, bytes } of walked) {
    if (length > TEXT_LENGTH) break;
    last = path;
    if (digest === "") continue;
    files.push([path, digest, size, attributes]);
    length += path.length + (attributes?.length ?? 0);
    if (kindOf(path) === "dir") continue;
    if (bytes === null) throw new Error(`the content of '${path}' is not there`);
    const name = contentName({ digest, size });
    if (!wanted.has(name)) length += 2 * bytes;
    wanted.set(name, { digest, size });
  }
  const isLast = walked.length < PATHS && last === (walked.at(-1)?.path ?? last);
  return {
    slice: { after, last, files, contents: contents.toCopy([...wanted.values()], gen) },
    length,
    isLast,
  };
}
