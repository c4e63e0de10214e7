import type { Sql } from "../../sqlite/sql.ts";
import { Store } from "../../sqlite/store.ts";
import type { Position } from "./commit-store.ts";
import { directoryOf, justAfter, subtree } from "./path-ranges.ts";
import type { ReadCache } from "./read-cache.ts";

/** SHA-256 of nothing: what an empty directory has for a digest. */
export const EMPTY_DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** The kind of a row of `files`, by its number. */
const FILE_KINDS = ["file", "dir"] as const;
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
      SELECT 1 FROM files INDEXED BY head WHERE gen = ?1 AND died IS NULL AND path >= ?3 AND path < ?4
    ) AS siblings,
    EXISTS (
      SELECT 1 FROM files INDEXED BY head WHERE gen = ?1 AND died IS NULL AND path >= ?5 AND path < ?6
    ) AS below,
    born, lower(hex(digest)) AS digest, size, attributes
  FROM (SELECT 1) LEFT JOIN files AS there INDEXED BY head ON gen = ?1 AND path = ?2 AND died IS NULL`;

/**
 * The rows of `files`. A row is born at the commit that wrote it and dies at the commit that replaced or deleted it; it
 * never goes, so that every commit can be read for ever.
 */
export class FileStore extends Store {
  readonly #reads: ReadCache;

  constructor(sql: Sql, reads: ReadCache) {
    super(sql);
    this.#reads = reads;
  }

  /** What is at a path at HEAD. */
  head(gen: number, path: string): HeadRow | undefined {
    return this.sql.first<HeadRow>`
      SELECT born, lower(hex(digest)) AS digest, size, attributes FROM files INDEXED BY head
      WHERE gen = ${gen} AND path = ${path} AND died IS NULL`;
  }

  /** What was at a path at a commit. */
  at({ gen, seq }: Position, path: string): HeadRow | undefined {
    const row = this.sql.first<HeadRow & { died: number | null }>`
      SELECT born, died, lower(hex(digest)) AS digest, size, attributes FROM files
      WHERE gen = ${gen} AND path = ${path} AND born <= ${seq} ORDER BY born DESC LIMIT 1`;
    return row && (row.died === null || row.died > seq) ? row : undefined;
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

  /** The first path at HEAD below a directory (given with its slash), after `after`. */
  firstBelow(gen: number, { directory, after }: { directory: string; after?: string }): string | undefined {
    const { lower, upper } = subtree(directory);
    const from = after === undefined ? lower : justAfter(after);
    return this.sql.first<{ path: string }>`
      SELECT path FROM files INDEXED BY head
      WHERE gen = ${gen} AND died IS NULL AND path >= ${from} AND path < ${upper} ORDER BY path LIMIT 1`
      ?.path;
  }

  bear(path: string, { gen, seq, state }: { gen: number; seq: number; state: FileState }): void {
    const { digest, size, attributes } = state;
    this.#reads.drop(path);
    this.sql.run`
      INSERT INTO files (gen, path, born, died, kind, digest, size, attributes)
      VALUES (${gen}, ${path}, ${seq}, NULL, ${FILE_KINDS.indexOf(kindOf(path))}, unhex(${digest}), ${size}, ${attributes})`;
  }

  kill(path: string, { gen, born, seq }: { gen: number; born: number; seq: number }): void {
    this.#reads.drop(path);
    this.sql.run`UPDATE files SET died = ${seq} WHERE gen = ${gen} AND path = ${path} AND born = ${born}`;
  }
}
