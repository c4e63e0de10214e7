/** Ranges of paths in their order (core/path-order.ts). */

/** Greater than every text in SQLite: a blob. */
export const AFTER_ALL_TEXTS = new Uint8Array(0);

/** Paths from `lower` on, up to and without `upper`. */
export interface PathRange {
  readonly lower: string;
  readonly upper: string | Uint8Array;
}

/** All paths that start with `prefix`. */
export function rangeOf(prefix: string): PathRange {
  return { lower: prefix, upper: prefixEnd(prefix) };
}

/** All paths below a directory, given with its trailing slash. Its own row, which has that path, is among them. */
export function subtree(directory: string): { lower: string; upper: string } {
  // "0" is the byte after "/".
  return { lower: directory, upper: `${directory.slice(0, -1)}0` };
}

/** The directory that a file is in, with its slash; "" at the root. An empty directory is its own. */
export function directoryOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1);
}

/** The least text that a path greater than `path` can be equal to: paths hold no control characters. */
export function justAfter(path: string): string {
  return `${path}\u0001`;
}

/** The least text greater than all that start with `prefix`. */
function prefixEnd(prefix: string): string | Uint8Array {
  const points = Array.from(prefix, (character) => character.codePointAt(0) as number);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    if (last === 0x10ffff) continue;
    // There are no characters from U+D800 to U+DFFF.
    const next = last === 0xd7ff ? 0xe000 : last + 1;
    return String.fromCodePoint(...points, next);
  }
  return AFTER_ALL_TEXTS;
}
