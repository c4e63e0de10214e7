import { pathFault } from "../../protocol/paths.ts";
import { digestBytes, hasContent, referToContent } from "./contents.ts";
import type { CommitRefused, Operation } from "../branch/contract.ts";
import { afterDirectory, attributesText, DIRECTORY, FILE, FILE_COLUMNS, type FileRow } from "./rows.ts";

/** The commit that rows are written for. */
export interface Target {
  readonly gen: number;
  readonly seq: number;
}

/** The digest of no bytes at all: what a directory row has. */
const EMPTY_DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

type Applied = { readonly ok: true; readonly changes: number } | CommitRefused;

/**
 * Applies operations as one commit: reduced to one per path (the last), deletions before puts, so that what is
 * checked is the state that the commit leaves. `changes` counts births and deaths. Where it refuses, rows may have been
 * written: the caller rolls the transaction back.
 */
export function applyOperations(sql: SqlStorage, target: Target, operations: readonly Operation[]): Applied {
  const last = new Map(operations.map((operation) => [pathOf(operation), operation]));
  let changes = 0;
  for (const operation of last.values()) {
    const fault = pathFault(pathOf(operation));
    if (fault) return { ok: false, reason: "bad-path", path: pathOf(operation), fault };
    if ("delete" in operation) changes += end(sql, target, operation.delete);
  }
  for (const operation of last.values()) {
    if (!("put" in operation)) continue;
    const put = putRow(sql, target, operation);
    if (!put.ok) return put;
    changes += put.changes;
  }
  return { ok: true, changes };
}

function pathOf(operation: Operation): string {
  return "put" in operation ? operation.put : operation.delete;
}

export type Put = Extract<Operation, { readonly put: string }>;

/** Why a put can't be, or what it replaces; writes nothing. `same`: exactly this is there already. */
export function checkPut(
  sql: SqlStorage,
  gen: number,
  { put: path, digest, size, attributes }: Put,
): { ok: true; old: FileRow | null; same: boolean } | CommitRefused {
  const fault = pathFault(path);
  if (fault) return { ok: false, reason: "bad-path", path, fault };
  if (path.endsWith("/") && (size !== 0 || digest !== EMPTY_DIGEST))
    return { ok: false, reason: "bad-path", path, fault: "empty-segment" };
  const old = livingRow(sql, gen, path);
  const other = old ? null : inTheWay(sql, gen, path);
  if (other !== null) return { ok: false, reason: "path-conflict", path, other };
  const text = attributesText(attributes ?? {});
  const same = old !== null && old.digest === digest && old.size === size && old.attributes === text;
  return { ok: true, old, same };
}

/** Writes a put that was checked: ends what is there and begins a row. Answers the births and deaths. */
export function writePut(sql: SqlStorage, target: Target, { put: path, digest, size, attributes }: Put): number {
  const kind = path.endsWith("/") ? DIRECTORY : FILE;
  const ended = end(sql, target, path);
  sql.exec(
    "INSERT INTO files (gen, path, born, died, kind, digest, size, attributes) VALUES (?, ?, ?, NULL, ?, ?, ?, ?)",
    target.gen,
    path,
    target.seq,
    kind,
    digestBytes(digest),
    size,
    attributesText(attributes ?? {}),
  );
  if (kind === FILE) referToContent(sql, target.gen, { digest, size });
  return ended + 1;
}

function putRow(sql: SqlStorage, target: Target, operation: Put): Applied {
  const check = checkPut(sql, target.gen, operation);
  if (!check.ok) return check;
  if (check.same) return { ok: true, changes: 0 };
  const { put: path, digest, size } = operation;
  if (!path.endsWith("/") && !hasContent(sql, target.gen, { digest, size }))
    return { ok: false, reason: "no-such-content", path };
  return { ok: true, changes: writePut(sql, target, operation) };
}

/** Ends the life of what is at a path: 1 where there was something. */
function end(sql: SqlStorage, { gen, seq }: Target, path: string): number {
  const query = "UPDATE files SET died = ? WHERE gen = ? AND path = ? AND died IS NULL";
  return sql.exec(query, seq, gen, path).rowsWritten > 0 ? 1 : 0;
}

function livingRow(sql: SqlStorage, gen: number, path: string): FileRow | null {
  const query = `SELECT ${FILE_COLUMNS} FROM files WHERE gen = ? AND path = ? AND died IS NULL`;
  return sql.exec<FileRow>(query, gen, path).toArray()[0] ?? null;
}

/** What keeps a new path from being put: a file among its parent directories, or anything below it where it is a file. */
function inTheWay(sql: SqlStorage, gen: number, path: string): string | null {
  for (const parent of parents(path)) if (livingRow(sql, gen, parent)) return parent;
  const below = path.endsWith("/") ? null : `${path}/`;
  if (below === null) return null;
  const query = "SELECT path FROM files WHERE gen = ? AND died IS NULL AND path >= ? AND path < ? ORDER BY path LIMIT 1";
  return sql.exec<{ path: string }>(query, gen, below, afterDirectory(below)).toArray()[0]?.path ?? null;
}

/** The paths that a path's directories would have as files: "a", "a/b" for "a/b/c" and for the directory "a/b/". */
function parents(path: string): string[] {
  const found: string[] = [];
  for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1)) found.push(path.slice(0, slash));
  return found;
}
