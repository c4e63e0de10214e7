/**
 * The order of paths: that of their UTF-8 bytes, which is S3's and SQLite's BINARY. JavaScript compares UTF-16
 * units: there, a character beyond U+FFFF sorts before U+E000 to U+FFFF.
 */

/** Negative if `a` comes before `b`, zero if they are the same. */
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
