/** What a JSON body may hold. */
export interface BodyLimits {
  readonly bytes: number;
  /** Objects and lists inside each other. */
  readonly depth: number;
  /** Values in objects and lists, about. */
  readonly values: number;
  /** Names and values of one object, about. An object of very many takes much longer to parse than its bytes let expect. */
  readonly keys: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d] as const;

/**
 * Which limit a text that is meant as JSON does not keep; undefined if it keeps them. One pass over the bytes, so that
 * what would take long to parse and to check is refused before that. The text may be no JSON at all.
 */
export function brokenLimit(
  text: Uint8Array,
  { depth, values, keys }: Omit<BodyLimits, "bytes">,
): "depth" | "values" | "keys" | undefined {
  const levels = new Levels(depth, keys);
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] as number;
    if (byte === QUOTE) at = endOfString(text, at);
    else if (byte === COMMA) {
      count++;
      if (!levels.takes()) return "keys";
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      count++;
      if (!levels.open(byte)) return "depth";
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) levels.close();
    if (count > values) return "values";
  }
  return undefined;
}

/** The objects and lists inside each other where a scan stands. */
class Levels {
  #level = 0;
  readonly #depth: number;
  readonly #keys: number;
  /** For each level, how many more commas it may have: in a list as many as there are values. */
  readonly #left: Float64Array;

  constructor(depth: number, keys: number) {
    this.#depth = depth;
    this.#keys = keys;
    this.#left = new Float64Array(depth + 1).fill(Number.POSITIVE_INFINITY);
  }

  /** Returns false if it is one too deep. */
  open(byte: number): boolean {
    this.#level++;
    if (this.#level > this.#depth) return false;
    // A text that is no JSON may close more than it opened.
    if (this.#level > 0)
      this.#left[this.#level] = byte === OPEN_OBJECT ? this.#keys - 1 : Number.POSITIVE_INFINITY;
    return true;
  }

  close(): void {
    this.#level--;
  }

  /** Counts a comma. Returns false if it is one too many for its object. */
  takes(): boolean {
    const left = this.#left[this.#level] ?? Number.POSITIVE_INFINITY;
    this.#left[this.#level] = left - 1;
    return left > 0;
  }
}

/** Where the string ends that begins at a place: at its closing quote, or behind the text if it has none. */
function endOfString(text: Uint8Array, start: number): number {
  // The platform finds a byte much faster than a loop does, and most of a large body is in strings.
  for (let quote = text.indexOf(QUOTE, start + 1); quote !== -1; quote = text.indexOf(QUOTE, quote + 1)) {
    if (!isEscaped(text, quote)) return quote;
  }
  return text.length;
}

function isEscaped(text: Uint8Array, place: number): boolean {
  let before = place - 1;
  while (text[before] === BACKSLASH) before--;
  return (place - before) % 2 === 0;
}
