/**
 * The known name that a mistyped one probably means: the nearest by edits, ignoring case, `_` and `-`. Undefined if none
 * is near, which allows about one edit for every three letters.
 */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  const wanted = plain(name);
  let best: string | undefined;
  let least = Math.floor(wanted.length / 3) + 1;
  for (const candidate of known) {
    const edits = distance(wanted, plain(candidate));
    if (edits < least) [best, least] = [candidate, edits];
  }
  return best;
}

function plain(name: string): string {
  return name.toLowerCase().replace(/[_-]/g, "").slice(0, MAX_COMPARED);
}

/** Names are 63 characters at most; a field that is far longer is near to nothing. */
const MAX_COMPARED = 64;

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const here = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      const least = Math.min(
        at(above, column) + 1,
        at(here, column - 1) + 1,
        at(above, column - 1) + (same ? 0 : 1),
      );
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      here.push(swapped ? Math.min(least, at(before, column - 2) + 1) : least);
    }
    before = above;
    above = here;
  }
  return at(above, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
