import type { Sql } from "../../objects/sql.ts";
import { BranchStore } from "../store.ts";
import type { Position } from "./commit-store.ts";
import { directoryOf, justAfter, rangeOf, subtree } from "./path-ranges.ts";
import type { ReadCache } from "./read-cache.ts";

/** The kind of a row of `files`, by its number. */
export const FILE_KINDS = ["file", "dir"] as const;
/** The kind of a placeholder, which an erasure leaves (erasures/erase.ts). */
export const PLACEHOLDER = 2;
/** `version` of a placeholder that is no version of its path. */
export const NO_VERSION = 0;
type FileKind = (typeof FILE_KINDS)[number];

/** A path says by its end what is there: "a/" is a directory. */
export function kindOf(path: string): FileKind {
  return path.endsWith("/") ? "dir" : "file";
}

/** What is at a path. */
export interface FileState {
  readonly digest: string;
  readonly size: number;
  /** JSON as `attributesText` writes it; null if there are none. */
  readonly attributes: string | null;
  /** Of what has other tags now, and nothing else: when its bytes were written, in milliseconds. Null or absent: they are new. */
  readonly bytesAt?: number | null;
}

/** The version that a row is. */
interface RowVersion {
  /** Of the commit that names it. */
  readonly id: string;
  /** When its bytes were last written, in milliseconds. */
  readonly writtenAt: number;
}

/*
 * A row of `files` is born at a commit and dies at a later one. The present is what has not died. Commit n is what was born
 * by n and had not died by then. A difference is what was born or died in between. Nothing is copied, so a commit costs
 * what it changes. To read the past near the present takes the living rows together with those that died since. Further
 * back it skips from path to path, so no listing walks the dead (read/walk.ts).
 */

/** A row that is dead, and whose version is to be current again. */
export interface BornAgain {
  readonly path: string;
  readonly born: number;
  /** The commit that the version is named by. */
  readonly version: number;
}

/** Whether HEAD has a file of a path, and anything below it as a directory. */
interface Standing {
  readonly isFile: boolean;
  readonly hasBelow: boolean;
}

export interface HeadRow extends FileState {
  readonly born: number;
}

/** What is at a path at HEAD, and what around it a new file there could conflict with. */
export interface Around {
  readonly path: string;
  readonly before: HeadRow | undefined;
  /** Whether anything is in its `directoryOf`. */
  readonly hasSiblings: boolean;
  /** Whether anything is below the path. */
  readonly hasBelow: boolean;
}

type AroundRow = { readonly siblings: number; readonly below: number } & (HeadRow | { readonly born: null });

/** Of (?1 gen, ?2 path, ?3 and ?4 the subtree of its directory, ?5 and ?6 its own subtree). */
const AROUND = `
  SELECT
    EXISTS (
      SELECT 1 FROM files INDEXED BY head WHERE gen = ?1 AND died IS +NULL AND path >= ?3 AND path < ?4
    ) AS siblings,
    EXISTS (
      SELECT 1 FROM files INDEXED BY head WHERE gen = ?1 AND died IS +NULL AND path >= ?5 AND path < ?6
    ) AS below,
    born, lower(hex(digest)) AS digest, size, attributes
  FROM (SELECT 1) LEFT JOIN files AS there INDEXED BY head ON gen = ?1 AND path = ?2 AND died IS +NULL`;

/** Of (?1 gen, ?2 JSON of paths without a slash at the end). "0" is the byte after "/". */
const STANDING = `
  SELECT path, isFile, hasBelow FROM (
    SELECT asked.value AS path,
      EXISTS (SELECT 1 FROM files INDEXED BY head WHERE gen = ?1 AND path = asked.value AND died IS +NULL) AS isFile,
      EXISTS (
        SELECT 1 FROM files INDEXED BY head
        WHERE gen = ?1 AND died IS +NULL AND path >= asked.value || '/' AND path < asked.value || '0'
      ) AS hasBelow
    FROM json_each(?2) AS asked
  ) WHERE isFile OR hasBelow`;

/** Of (?1 gen, ?2 seq, ?3 JSON of births by path): what a row had is there again, no older than it was. */
const BEAR_AGAIN = `
  INSERT INTO files (gen, path, born, died, kind, digest, size, attributes, version, renewed, bytesAt)
  SELECT f.gen, f.path, ?2, NULL, f.kind, f.digest, f.size, f.attributes, ifnull(f.version, f.born), f.renewed, f.bytesAt
  FROM json_each(?3) AS back CROSS JOIN files AS f ON f.gen = ?1 AND f.path = back.key AND f.born = back.value`;

/** Of (?1 gen, ?2 seq, ?3 JSON of versions by path). */
const RECORD_REVIVED = `
  INSERT INTO revived (gen, version, path, born) SELECT ?1, back.value, back.key, ?2 FROM json_each(?3) AS back`;

/**
 * The rows of `files`. A row is born at the commit that wrote it and dies at the commit that replaced or deleted it; it
 * never goes, so that every commit can be read for ever.
 */
export class FileStore extends BranchStore {
  readonly #reads: ReadCache;

  constructor(sql: Sql, reads: ReadCache) {
    super(sql);
    this.#reads = reads;
  }

  /** What is at a path at HEAD. */
  head(gen: number, path: string): HeadRow | undefined {
    return this.sql.first<HeadRow>`
      SELECT born, lower(hex(digest)) AS digest, size, attributes FROM files INDEXED BY head
      WHERE gen = ${gen} AND path = ${path} AND died IS +NULL`;
  }

  /** Whether what is at a path at HEAD was there at a commit already. */
  isBornBy({ gen, seq }: Position, path: string): boolean {
    return this.sql.has`
      SELECT 1 FROM files INDEXED BY head WHERE gen = ${gen} AND path = ${path} AND died IS +NULL AND born <= ${seq}`;
  }

  /** What was at a path at a commit. */
  at({ gen, seq }: Position, path: string): HeadRow | undefined {
    const row = this.sql.first<HeadRow & { died: number | null }>`
      SELECT born, died, lower(hex(digest)) AS digest, size, attributes FROM files
      WHERE gen = ${gen} AND path = ${path} AND born <= ${seq} ORDER BY born DESC LIMIT 1`;
    return row && (row.died === null || row.died > seq) ? row : undefined;
  }

  /** What the row of a path is that was born at a commit. */
  versionAt({ gen, seq: born }: Position, path: string): RowVersion {
    const row = this.sql.first<RowVersion>`
      SELECT id, max(ifnull(bytesAt, createdAt), ifnull(renewed, 0)) AS writtenAt
      FROM files CROSS JOIN commits ON commits.gen = files.gen AND commits.seq = ifnull(files.version, files.born)
      WHERE files.gen = ${gen} AND path = ${path} AND born = ${born}`;
    if (!row) throw new Error(`no row of '${path}' was born at commit ${born}`);
    return row;
  }

  /** Whether commits after one bore a row whose bytes are older than it is, or a version anew. Goes through all that they bore. */
  bearsOlderBytes({ gen, seq }: Position): boolean {
    return this.sql.has`
      SELECT 1 FROM files INDEXED BY by_born
      WHERE gen = ${gen} AND born > ${seq} AND (bytesAt IS NOT NULL OR version > 0) LIMIT 1`;
  }

  /** All that a put must know of a path, in one statement: this is the hot path. */
  around(gen: number, path: string): Around {
    const parent = subtree(directoryOf(path));
    const below = subtree(`${path}/`);
    const [row] = this.sql.query<AroundRow>(AROUND, [
      gen,
      path,
      parent.lower,
      parent.upper,
      below.lower,
      below.upper,
    ]);
    const before = row && row.born !== null ? row : undefined;
    return { path, before, hasSiblings: row?.siblings === 1, hasBelow: row?.below === 1 };
  }

  /** Those of some paths, given without a slash at the end, at which or below which HEAD has something. */
  standing(gen: number, paths: readonly string[]): ReadonlyMap<string, Standing> {
    if (paths.length === 0) return new Map();
    const rows = this.sql.query<{ path: string; isFile: 0 | 1; hasBelow: 0 | 1 }>(STANDING, [
      gen,
      JSON.stringify(paths),
    ]);
    return new Map(
      rows.map(({ path, isFile, hasBelow }) => [path, { isFile: isFile === 1, hasBelow: hasBelow === 1 }]),
    );
  }

  /** The first path at HEAD below a directory (given with its slash), after `after`. */
  firstBelow(gen: number, { directory, after }: { directory: string; after?: string }): string | undefined {
    const { lower, upper } = subtree(directory);
    const from = after === undefined ? lower : justAfter(after);
    return this.sql.first<{ path: string }>`
      SELECT path FROM files INDEXED BY head
      WHERE gen = ${gen} AND died IS +NULL AND path >= ${from} AND path < ${upper} ORDER BY path LIMIT 1`
      ?.path;
  }

  /** Whether anything is at HEAD whose path starts so. */
  anyAtHead(gen: number, prefix: string): boolean {
    const { lower, upper } = rangeOf(prefix);
    return this.sql.has`
      SELECT 1 FROM files INDEXED BY head
      WHERE gen = ${gen} AND died IS +NULL AND path >= ${lower} AND path < ${upper} LIMIT 1`;
  }

  /** Somebody wrote what is at a path once more: nothing changes but its age, and its time at HEAD if it has one of its own. */
  renew(path: string, { gen, now }: { gen: number; now: number }): void {
    this.#reads.rowChanged();
    this.#reads.drop(path);
    this.sql.run`
      UPDATE files SET renewed = ${now} WHERE gen = ${gen} AND path = ${path} AND died IS +NULL`;
  }

  bear(path: string, { gen, seq, state }: { gen: number; seq: number; state: FileState }): void {
    const { digest, size, attributes, bytesAt = null } = state;
    this.#reads.drop(path);
    this.sql.run`
      INSERT INTO files (gen, path, born, died, kind, digest, size, attributes, bytesAt)
      VALUES (${gen}, ${path}, ${seq}, NULL, ${FILE_KINDS.indexOf(kindOf(path))}, unhex(${digest}), ${size}, ${attributes},
        ${bytesAt})`;
  }

  /** The versions of these rows are current again, under their own names, and no older than they were. */
  bearAgain(rows: readonly BornAgain[], { gen, seq }: Position): void {
    if (rows.length === 0) return;
    for (const { path } of rows) this.#reads.drop(path);
    // Pairs, not records: SQLite has what they hold without another look into the JSON.
    const births = Object.fromEntries(rows.map(({ path, born }) => [path, born]));
    const versions = Object.fromEntries(rows.map(({ path, version }) => [path, version]));
    this.sql.execute(BEAR_AGAIN, [gen, seq, JSON.stringify(births)]);
    this.sql.execute(RECORD_REVIVED, [gen, seq, JSON.stringify(versions)]);
  }

  /** Whether a commit deleted the path, as a version of it that is still there. */
  isDeletion({ gen, seq }: Position, path: string): boolean {
    return this.sql.has`
      SELECT 1 FROM files AS gone INDEXED BY by_died
      WHERE gen = ${gen} AND died IS NOT NULL AND died = ${seq} AND path = ${path}
        AND unmarked IS NULL AND version IS NOT ${NO_VERSION} AND NOT EXISTS (
          SELECT 1 FROM files AS next
          WHERE next.gen = gone.gen AND next.path = gone.path AND next.born = gone.died AND next.kind < ${PLACEHOLDER})`;
  }

  kill(path: string, { gen, born, seq }: { gen: number; born: number; seq: number }): void {
    this.#reads.drop(path);
    this.sql.run`UPDATE files SET died = ${seq} WHERE gen = ${gen} AND path = ${path} AND born = ${born}`;
  }
}
