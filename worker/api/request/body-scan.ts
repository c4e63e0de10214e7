/** What a JSON body may hold. */
export interface BodyLimits {
  readonly bytes: number;
  /** Objects and lists inside each other. */
  readonly depth: number;
  /** Values in objects and lists, about. */
  readonly values: number;
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
  { depth, values }: Pick<BodyLimits, "depth" | "values">,
): "depth" | "values" | undefined {
  let level = 0;
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] as number;
    if (byte === QUOTE) at = endOfString(text, at);
    else if (byte === COMMA) count++;
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      level++;
      count++;
      if (level > depth) return "depth";
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) level--;
    if (count > values) return "values";
  }
  return undefined;
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
