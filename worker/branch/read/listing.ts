import type { FileEntry } from "../../../protocol/files.ts";
import { comparePaths } from "../../core/path-order.ts";
import { kindOf } from "../tree/file-store.ts";
import { justAfter, type PathRange, rangeOf, subtree } from "../tree/path-ranges.ts";
import type { Walk } from "./walk.ts";

/** What a page of a listing is asked; see ListFiles. */
export interface PageRequest {
  readonly prefix: string;
  readonly delimiter?: "/" | undefined;
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface PageFile extends FileEntry {
  /** As in WalkRow. */
  readonly version: number;
  readonly bytesAt: number | null;
  readonly renewed: number | null;
}
type PageEntry = PageFile | { readonly kind: "prefix"; readonly path: string };

export interface Page {
  readonly entries: readonly PageEntry[];
  /** What the next page comes after; null if there is none. */
  readonly next: string | null;
}

/** What of a commit's paths a page needs: a walk over this may leave out what the page would fold or skip. */
export function pageScope(page: PageRequest): {
  range: PathRange;
  foldBelow: string | undefined;
  rows: number;
} {
  const range = { ...rangeOf(page.prefix), lower: pageStart(page) };
  // One more tells whether there is a next page.
  return { range, foldBelow: page.delimiter && page.prefix, rows: page.limit + 1 };
}

/** The least path that a page may hold. */
export function pageStart({ prefix, delimiter, after }: Omit<PageRequest, "limit">): string {
  if (after === undefined || after === "") return prefix;
  const start = delimiter && isCommonPrefix(after, prefix) ? subtree(after).upper : justAfter(after);
  return comparePaths(start, prefix) < 0 ? prefix : start;
}

/**
 * One page of a walk over its `pageScope`. A common prefix is shown once; its subtree is skipped, not read. If the walk
 * gives up, the page is short.
 */
export function readPage(walk: Walk, { prefix, delimiter, limit }: PageRequest): Page {
  const entries: PageEntry[] = [];
  for (let row = walk.peek(); row; row = walk.peek()) {
    if (entries.length === limit) return { entries, next: entries.at(-1)?.path ?? null };
    const common = delimiter && commonPrefix(row.path, prefix);
    if (common) {
      entries.push({ kind: "prefix", path: common });
      walk.skipTo(subtree(common).upper);
    } else {
      const { path, digest, size, version, bytesAt, renewed = null } = row;
      entries.push({ kind: kindOf(path), path, digest, size, version, bytesAt, renewed });
      walk.advance();
    }
  }
  return { entries, next: nextMark(entries.at(-1), walk.spentAt) };
}

/** Where the next page goes on after one that is not full; null if the walk did not give up: then that was all. */
function nextMark(last: PageEntry | undefined, spentAt: string | undefined): string | null {
  if (spentAt === undefined || !last) return spentAt ?? null;
  const behindLast = last.kind === "prefix" ? subtree(last.path).upper : last.path;
  return comparePaths(spentAt, behindLast) < 0 ? last.path : spentAt;
}

/** The path up to its first "/" behind the prefix, if there is one. */
export function commonPrefix(path: string, prefix: string): string | undefined {
  const slash = path.indexOf("/", prefix.length);
  return slash < 0 ? undefined : path.slice(0, slash + 1);
}

function isCommonPrefix(text: string, prefix: string): boolean {
  return text.startsWith(prefix) && commonPrefix(text, prefix) === text;
}
