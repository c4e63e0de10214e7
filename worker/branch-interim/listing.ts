import type { FileList, ListEntry, ListFiles } from "../branch/contract.ts";
import { afterDirectory, type FileRow, kindName } from "./rows.ts";
import type { Paths } from "./tree.ts";
import { compareUtf8 } from "./utf8-order.ts";

/** The first page after a folded prefix reads few rows, since the next entry may fold too; it doubles from there. */
const SMALLEST_READ = 2;

/**
 * One page of a listing (S3 API, ListObjectsV2). With a delimiter it is a skip-scan: what is under a common prefix
 * is never read, the next read starts behind it. Costs what it answers.
 */
export function listPage(paths: Paths, request: ListFiles): Pick<FileList, "entries" | "truncated" | "next"> {
  const { prefix, delimiter, limit } = request;
  const end = prefix === "" ? null : successor(prefix);
  const entries: ListEntry[] = [];
  let from = startOf(request);
  let read = delimiter ? SMALLEST_READ : limit + 1;
  for (;;) {
    const rows = paths.page({ from, end }, Math.min(read, limit + 1 - entries.length));
    const last = rows.at(-1);
    if (!last) return { entries, truncated: false, next: null };
    for (const row of rows) {
      const folded = delimiter ? foldedPrefix(row.path, prefix) : null;
      if (entries.length === limit) return { entries, truncated: limit > 0, next: cursorOf(entries) };
      entries.push(folded === null ? fileEntry(row) : { kind: "prefix", path: folded });
      from = folded === null ? behind(row.path) : afterDirectory(folded);
      if (folded !== null) break;
    }
    read = entries.at(-1)?.kind === "prefix" ? SMALLEST_READ : read * 2;
  }
}

function cursorOf(entries: readonly ListEntry[]): string | null {
  return entries.at(-1)?.path ?? null;
}

/** The least path behind `path`: no path holds a control character. */
function behind(path: string): string {
  return `${path}\u0001`;
}

function startOf({ prefix, delimiter, after }: ListFiles): string {
  if (after === undefined || compareUtf8(after, prefix) < 0) return prefix;
  // A common prefix that was answered last: everything under it is done.
  const folded = delimiter ? foldedPrefix(after, prefix) : null;
  return folded !== null && folded === after ? afterDirectory(after) : behind(after);
}

/** The least text behind everything that starts with `prefix`; null where nothing is. */
function successor(prefix: string): string | null {
  const points = Array.from(prefix);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    const point = last.codePointAt(0) as number;
    if (point === LAST_POINT) continue;
    const next = point + 1 === FIRST_SURROGATE ? AFTER_SURROGATES : point + 1;
    return points.join("") + String.fromCodePoint(next);
  }
  return null;
}

const LAST_POINT = 0x10ffff;
const FIRST_SURROGATE = 0xd800;
const AFTER_SURROGATES = 0xe000;

/** The common prefix that a path falls under, up to and with the first "/" behind `prefix`. */
function foldedPrefix(path: string, prefix: string): string | null {
  const slash = path.indexOf("/", prefix.length);
  return slash < 0 ? null : path.slice(0, slash + 1);
}

function fileEntry(row: FileRow): ListEntry {
  return { kind: kindName(row.kind), path: row.path, digest: row.digest, size: row.size };
}
