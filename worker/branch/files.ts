import type { Attributes } from "../../protocol/files.ts";
import { justAfter, subtree } from "./path-order.ts";
import type { Sql } from "./sql.ts";

/** SHA-256 of nothing: what an empty directory has for a digest. */
export const EMPTY_DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** The kind of a row of `files`, by its number. */
const FILE_KINDS = ["file", "dir"] as const;
type FileKind = (typeof FILE_KINDS)[number];

/** What a path is told by: "a/" is a directory. */
export function kindOf(path: string): FileKind {
  return path.endsWith("/") ? "dir" : "file";
}

/** What is at a path. */
export interface FileState {
  readonly digest: string;
  readonly size: number;
  /** JSON as `attributesText` writes it; null where there are none. */
  readonly attributes: string | null;
}

export interface HeadRow extends FileState {
  readonly born: number;
}

/** One text for one set of attributes, so that equal ones are seen to be equal; null for none. */
export function attributesText({ contentType, metadata = {} }: Attributes): string | null {
  const names = Object.keys(metadata).sort();
  if (contentType === undefined && names.length === 0) return null;
  const sorted = Object.fromEntries(names.map((name) => [name, metadata[name]]));
  return JSON.stringify({ contentType, ...(names.length > 0 && { metadata: sorted }) });
}

/** The rows of `files`: births and deaths (design §3). */
export class FileStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** What is at a path at HEAD. */
  head(gen: number, path: string): HeadRow | undefined {
    return this.#sql.first<HeadRow>`
      SELECT born, lower(hex(digest)) AS digest, size, attributes FROM files INDEXED BY head
      WHERE gen = ${gen} AND path = ${path} AND died IS NULL`;
  }

  /** What was at a path at a commit. */
  at(path: string, { gen, seq }: { gen: number; seq: number }): FileState | undefined {
    const row = this.#sql.first<FileState & { died: number | null }>`
      SELECT died, lower(hex(digest)) AS digest, size, attributes FROM files
      WHERE gen = ${gen} AND path = ${path} AND born <= ${seq} ORDER BY born DESC LIMIT 1`;
    return row && (row.died === null || row.died > seq) ? row : undefined;
  }

  /** The first path at HEAD below a directory (given with its slash), after `after`. */
  firstBelow(gen: number, { directory, after }: { directory: string; after?: string }): string | undefined {
    const { lower, upper } = subtree(directory);
    const from = after === undefined ? lower : justAfter(after);
    return this.#sql.first<{ path: string }>`
      SELECT path FROM files INDEXED BY head
      WHERE gen = ${gen} AND died IS NULL AND path >= ${from} AND path < ${upper} ORDER BY path LIMIT 1`
      ?.path;
  }

  bear(path: string, { gen, seq, state }: { gen: number; seq: number; state: FileState }): void {
    const { digest, size, attributes } = state;
    this.#sql.run`
      INSERT INTO files (gen, path, born, died, kind, digest, size, attributes)
      VALUES (${gen}, ${path}, ${seq}, NULL, ${FILE_KINDS.indexOf(kindOf(path))}, unhex(${digest}), ${size}, ${attributes})`;
  }

  kill(path: string, { gen, born, seq }: { gen: number; born: number; seq: number }): void {
    this.#sql.run`UPDATE files SET died = ${seq} WHERE gen = ${gen} AND path = ${path} AND born = ${born}`;
  }
}
