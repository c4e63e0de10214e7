/**
 * The order of paths: that of their UTF-8 bytes, which is S3's and SQLite's BINARY. JavaScript compares UTF-16
 * units, where a character beyond U+FFFF sorts before U+E000 to U+FFFF.
 */

/** Greater than every text in SQLite: a blob. */
const AFTER_ALL_TEXTS = new Uint8Array(0);

/** Paths from `lower` on, up to and without `upper`. */
export interface PathRange {
  readonly lower: string;
  readonly upper: string | Uint8Array;
}

/** Negative where `a` comes before `b`, zero where they are the same. */
export function comparePaths(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

/** Moves surrogates, which stand for U+10000 and above, behind all other units. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/** All paths that start with `prefix`. */
export function rangeOf(prefix: string): PathRange {
  return { lower: prefix, upper: prefixEnd(prefix) };
}

/** All paths below a directory, given with its trailing slash; its own row, which is named so, is among them. */
export function subtree(directory: string): { lower: string; upper: string } {
  // "0" is the byte after "/".
  return { lower: directory, upper: `${directory.slice(0, -1)}0` };
}

/** The directory that a file is in, with its slash; "" at the root. Of an empty directory, itself. */
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
