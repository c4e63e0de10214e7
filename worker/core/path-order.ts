/**
 * The order of paths, that of their UTF-8 bytes: negative where `a` comes before `b`, zero where they are the same.
 * JavaScript compares UTF-16 units, where a character beyond U+FFFF sorts before U+E000 to U+FFFF.
 */
export function comparePaths(a: string, b: string): number {
  const [left, right] = [a[Symbol.iterator](), b[Symbol.iterator]()];
  for (;;) {
    const [from, to] = [left.next(), right.next()];
    if (from.done || to.done) return Number(to.done ?? false) - Number(from.done ?? false);
    const difference = (from.value.codePointAt(0) ?? 0) - (to.value.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
}
