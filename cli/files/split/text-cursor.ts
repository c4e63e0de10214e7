/** A place in a text, both numbers from 1; columns count UTF-16 units, as editors and JSON.parse do. */
export interface TextPlace {
  readonly line: number;
  readonly column: number;
}

const NEWLINE = 0x0a;

/** Counts lines and columns of UTF-8 that comes in chunks. */
export class TextCursor {
  #line = 1;
  #column = 1;

  get place(): TextPlace {
    return { line: this.#line, column: this.#column };
  }

  advance(bytes: Uint8Array): void {
    let lineStart = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, lineStart)) {
      lineStart = at + 1;
      this.#line++;
      this.#column = 1;
    }
    for (let at = lineStart; at < bytes.length; at++) this.#column += unitsOf(bytes[at] ?? 0);
  }
}

/** UTF-16 units of a character, counted at its first byte: four bytes are two, continuations none. */
function unitsOf(byte: number): number {
  if ((byte & 0xc0) === 0x80) return 0;
  return byte >= 0xf0 ? 2 : 1;
}
