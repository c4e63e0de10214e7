const CR = 13;

/** Where a delimiter lies in bytes. */
export interface Found {
  /** The bytes before are none of it: of what is not found, all of them but a beginning of it at their end. */
  readonly at: number;
  readonly whole: boolean;
}

/**
 * What ends a part of multipart/form-data (RFC 2046 §5.1.1): CRLF, `--` and the boundary. A CR is its first byte and no other,
 * so that what began like it and went on otherwise is never looked at again: the search is linear, whatever the bytes are.
 */
export class Delimiter {
  readonly bytes: Uint8Array;

  /** `boundary` holds no CR. */
  constructor(boundary: string) {
    this.bytes = new TextEncoder().encode(`\r\n--${boundary}`);
  }

  find(bytes: Uint8Array, from = 0): Found {
    const { length } = bytes;
    let at = from;
    while (at < length) {
      if (bytes[at] !== CR) {
        at = bytes.indexOf(CR, at);
        if (at === -1) break;
      }
      const matched = this.#matched(bytes, at);
      if (matched === this.bytes.length) return { at, whole: true };
      if (at + matched === length) return { at, whole: false };
      at += matched;
    }
    return { at: length, whole: false };
  }

  /** How many bytes from here on are those of the delimiter; one at least. */
  #matched(bytes: Uint8Array, at: number): number {
    let count = 1;
    while (count < this.bytes.length && bytes[at + count] === this.bytes[count]) count++;
    return count;
  }
}

/** What stands behind a delimiter: another part, the end of the form, or something that may not. */
export type Behind = "part" | "end" | "broken" | "unknown";

/** Reads up to two bytes behind a delimiter; unknown if they have not come. White space before the end of the line is let through. */
export function behindDelimiter(bytes: Uint8Array): { readonly what: Behind; readonly length: number } {
  const text = String.fromCharCode(...bytes.subarray(0, MAX_PADDING + 2));
  const padding = text.length - text.replace(/^[ \t]*/, "").length;
  const next = text.slice(padding, padding + 2);
  if (next === "\r\n") return { what: "part", length: padding + 2 };
  if (padding === 0 && next === "--") return { what: "end", length: 2 };
  const mayCome = next === "" || next === "\r" || (padding === 0 && next === "-");
  return { what: mayCome && padding <= MAX_PADDING ? "unknown" : "broken", length: 0 };
}

/** White space that senders may put behind a boundary, in bytes; none of those that we know of does. */
const MAX_PADDING = 64;
