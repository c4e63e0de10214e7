/**
 * Compares as SQLite's BINARY collation and S3 do: by bytes of UTF-8, which is by code points. JavaScript compares
 * UTF-16 units, where surrogates (beyond U+FFFF) come before U+E000..U+FFFF.
 */
export function compareUtf8(left: string, right: string): number {
  const shared = Math.min(left.length, right.length);
  for (let i = 0; i < shared; i++) {
    const a = left.charCodeAt(i);
    const b = right.charCodeAt(i);
    if (a !== b) return inCodePointOrder(a) - inCodePointOrder(b);
  }
  return left.length - right.length;
}

function inCodePointOrder(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
