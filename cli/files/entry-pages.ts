import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import type { LocalEntry } from "./local-tree.ts";

/** As many entries as are put, or deleted, in one go. */
export interface EntryPage<E = LocalEntry> {
  readonly entries: readonly E[];
  /** No page comes after it. */
  readonly isLast: boolean;
}

/**
 * Entries in pages, each of at most MAX_COMMIT_OPERATIONS entries, and of `maxBytes` but for a single entry that is
 * larger. Reads one entry ahead and no more: the next entry tells whether the page has ended.
 */
export async function* inPages<E extends { readonly size: number }>(
  entries: AsyncIterable<E>,
  { maxBytes = Number.POSITIVE_INFINITY }: { readonly maxBytes?: number } = {},
): AsyncGenerator<EntryPage<E>> {
  let page: E[] = [];
  let bytes = 0;
  for await (const entry of entries) {
    if (page.length === MAX_COMMIT_OPERATIONS || (page.length > 0 && bytes + entry.size > maxBytes)) {
      yield { entries: page, isLast: false };
      page = [];
      bytes = 0;
    }
    page.push(entry);
    bytes += entry.size;
  }
  if (page.length > 0) yield { entries: page, isLast: true };
}
