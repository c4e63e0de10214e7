/**
 * Of rows that were read for a page, with one more than it may have: its own, and the last of these if others come after it.
 * Undefined: there are none.
 */
export function pageOf<Row>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly last: Row | undefined } {
  const page = rows.slice(0, limit);
  return { page, last: rows.length > limit ? page.at(-1) : undefined };
}
