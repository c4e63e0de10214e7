/** Bytes that are kept of its end. */
const KEPT_BYTES = 16 * 1024;
const NEWLINE = 10;

/** What a command prints beyond its room. Only newlines are counted, lines are not made, so that a gigabyte costs little. */
export class Overflow {
  readonly #ring = new ByteRing(KEPT_BYTES);
  #newlines = 0;
  #at = 0;

  /** When the last of it came. */
  get at(): number {
    return this.#at;
  }

  add(bytes: Buffer, now: number): void {
    this.#newlines += countNewlines(bytes);
    this.#ring.add(bytes);
    this.#at = now;
  }

  /** Its last bytes, from the start of a line on, and how many lines are gone before them. */
  rest(): { bytes: Buffer; dropped: number } {
    const bytes = this.#ring.bytes();
    if (!this.#ring.overflowed) return { bytes, dropped: 0 };
    const whole = bytes.subarray(startOfLine(bytes));
    return { bytes: whole, dropped: Math.max(1, this.#newlines - countNewlines(whole)) };
  }
}

/** The start of the second line or, if there is none, of the first whole character. */
function startOfLine(bytes: Buffer): number {
  const newline = bytes.indexOf(NEWLINE);
  if (newline >= 0 && newline < bytes.length - 1) return newline + 1;
  let start = 0;
  while (start < 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return start;
}

// A loop over the bytes: if lines are short, looking for each newline costs many times as much.
function countNewlines(bytes: Buffer): number {
  let count = 0;
  for (let index = 0; index < bytes.length; index += 1) if (bytes[index] === NEWLINE) count += 1;
  return count;
}

/** The last bytes of what it is given, at a cost that does not depend on the size of the pieces. */
class ByteRing {
  readonly #buffer: Buffer;
  #end = 0;
  #full = false;
  #overflowed = false;

  constructor(capacity: number) {
    this.#buffer = Buffer.allocUnsafeSlow(capacity);
  }

  /** Whether something is gone. */
  get overflowed(): boolean {
    return this.#overflowed;
  }

  add(bytes: Buffer): void {
    const capacity = this.#buffer.length;
    if (this.#length + bytes.length > capacity) this.#overflowed = true;
    const kept = bytes.subarray(-capacity);
    const first = kept.copy(this.#buffer, this.#end);
    if (first < kept.length) kept.copy(this.#buffer, 0, first);
    this.#full ||= this.#end + kept.length >= capacity;
    this.#end = (this.#end + kept.length) % capacity;
  }

  bytes(): Buffer {
    const newest = this.#buffer.subarray(0, this.#end);
    return Buffer.concat(this.#full ? [this.#buffer.subarray(this.#end), newest] : [newest]);
  }

  get #length(): number {
    return this.#full ? this.#buffer.length : this.#end;
  }
}
