const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const COMMA = 0x2c;
const COLON = 0x3a;

/** White space of JSON (RFC 8259 §2). */
export function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * Finds where a JSON value ends whose bytes come in chunks: only quotes, backslashes and brackets count, which no byte
 * inside a character of UTF-8 can be taken for. What it finds is a value only if the text is JSON.
 */
export class ValueScan {
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  #isWord = false;
  #isBegun = false;

  /** Index behind the last byte of the value, or -1 if the value goes on after the chunk. Begins at `from`. */
  scan(chunk: Uint8Array, from: number): number {
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (this.#inString) {
        if (this.#stringByte(byte)) return at + 1;
      } else if (this.#isWord) {
        if (endsWord(byte)) return at;
      } else if (this.#outsideByte(byte)) return at + 1;
    }
    return -1;
  }

  /** Whether the value ends with this byte of a string. */
  #stringByte(byte: number): boolean {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) {
      this.#inString = false;
      return this.#depth === 0;
    }
    // A string can't hold a line's end: a quote that is missing is found in its line, and not at the end of the text.
    return byte < 0x20;
  }

  /** Whether the value ends with this byte, which is in no string. */
  #outsideByte(byte: number): boolean {
    const isFirst = !this.#isBegun;
    this.#isBegun = true;
    if (byte === QUOTE) this.#inString = true;
    else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) this.#depth++;
    else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) return --this.#depth <= 0;
    else if (isFirst) this.#isWord = true;
    return false;
  }
}

/** Whether a number, true, false or null has ended before this byte. */
function endsWord(byte: number): boolean {
  switch (byte) {
    case QUOTE:
    case COMMA:
    case COLON:
    case OPEN_BRACKET:
    case CLOSE_BRACKET:
    case OPEN_BRACE:
    case CLOSE_BRACE:
      return true;
    default:
      return isSpace(byte);
  }
}
