import { CliError } from "../../output/failure.ts";
import { jsonFault } from "../../spec/json-fault.ts";

/** `values`: one after the other, with white space between them or none. `array`: the elements of one array. */
type Frame = "values" | "array";

/** What may come between two elements of the array. */
type Between = "open" | "element-or-close" | "element" | "comma-or-close" | "end";

const COMMA = 0x2c;
const NEWLINE = 0x0a;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A value whose end has not come yet. */
interface Begun {
  readonly scan: ValueScan;
  readonly start: TextPlace;
  readonly pieces: Buffer[];
  bytes: number;
}

/** Cuts JSON values out of a text. Each is checked, kept as it is written, and ended by a newline. */
export class ValueSplitter implements RecordSplitter {
  readonly #name: string;
  readonly #frame: Frame;
  readonly #maxBytes: number;
  readonly #cursor = new TextCursor();
  #between: Between = "open";
  #begun: Begun | undefined;

  /** `name`: of the source, for error messages. */
  constructor(
    name: string,
    { frame, maxBytes = MAX_RECORD_BYTES }: { readonly frame: Frame; readonly maxBytes?: number },
  ) {
    this.#name = name;
    this.#frame = frame;
    this.#maxBytes = maxBytes;
  }

  push(chunk: Buffer): Buffer[] {
    const records: Buffer[] = [];
    let at = 0;
    while (at < chunk.length) {
      const begun = this.#begun;
      if (!begun) {
        at = this.#skip(chunk, at);
        continue;
      }
      const end = begun.scan.scan(chunk, at);
      const piece = chunk.subarray(at, end < 0 ? chunk.length : end);
      this.#hold(begun, piece);
      at += piece.length;
      if (end >= 0) records.push(this.#close(begun));
    }
    return records;
  }

  end(): Buffer[] {
    const records = this.#begun ? [this.#close(this.#begun)] : [];
    if (this.#frame === "array" && this.#between !== "end") {
      throw this.#bad("the text ends before the ']' of the array that holds the records");
    }
    return records;
  }

  /** Passes over what stands between two values, up to the next value; returns its index, or that of the chunk's end. */
  #skip(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      const byte = chunk[at] ?? 0;
      if (!isSpace(byte) && !this.#separates(byte, chunk.subarray(from, at))) {
        this.#cursor.advance(chunk.subarray(from, at));
        this.#begun = { scan: new ValueScan(), start: this.#cursor.place, pieces: [], bytes: 0 };
        return at;
      }
      at++;
    }
    this.#cursor.advance(chunk.subarray(from, at));
    return at;
  }

  /** Whether a byte that is no space belongs to the array and not to an element. Throws if it can't stand there. */
  #separates(byte: number, before: Buffer): boolean {
    if (this.#frame === "values") return false;
    const fail = (problem: string): CliError => {
      this.#cursor.advance(before);
      return this.#bad(problem);
    };
    switch (this.#between) {
      case "open":
        if (byte !== OPEN_BRACKET) throw fail("expected '['");
        this.#between = "element-or-close";
        return true;
      case "element-or-close":
        if (byte === CLOSE_BRACKET) this.#between = "end";
        return byte === CLOSE_BRACKET;
      case "element":
        if (byte === CLOSE_BRACKET) throw fail("there is a comma behind the last element");
        return false;
      case "comma-or-close":
        if (byte !== COMMA && byte !== CLOSE_BRACKET) throw fail("expected ',' or ']' behind the element");
        this.#between = byte === COMMA ? "element" : "end";
        return true;
      case "end":
        throw fail("there is more text behind the array that holds the records");
    }
  }

  #hold(begun: Begun, piece: Buffer): void {
    begun.pieces.push(piece);
    begun.bytes += piece.length;
    if (begun.bytes <= this.#maxBytes) return;
    const { line, column } = begun.start;
    throw new CliError(
      `${this.#name}: the value at line ${line}, column ${column} is longer than ${this.#maxBytes} bytes, the most that one record may have; nothing was committed`,
      { code: "RecordTooLarge" },
    );
  }

  #close({ pieces, start }: Begun): Buffer {
    const record = Buffer.concat([...pieces, Buffer.of(NEWLINE)]);
    const value = record.subarray(0, -1);
    checkJson(value, { name: this.#name, start });
    this.#cursor.advance(value);
    this.#begun = undefined;
    this.#between = "comma-or-close";
    return record;
  }

  #bad(problem: string): CliError {
    return badJson(this.#name, this.#cursor.place, problem);
  }
}

/** A text that can't be cut into JSON values, with the place at which that shows. */
function badJson(name: string, { line, column }: TextPlace, problem: string): CliError {
  return new CliError(`${name}, line ${line}, column ${column}: ${problem}; nothing was committed`, {
    code: "BadJson",
  });
}

/** Throws if the bytes, which stand at `start` in the source `name`, are not one JSON value (RFC 8259). */
function checkJson(bytes: Uint8Array, { name, start }: { name: string; start: TextPlace }): void {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw badJson(name, start, "the value that begins here is not UTF-8");
  }
  try {
    JSON.parse(text);
  } catch (error) {
    const fault = jsonFault(text);
    if (!fault) throw badJson(name, start, error instanceof Error ? error.message : String(error));
    const line = start.line + fault.line - 1;
    const column = fault.line === 1 ? start.column + fault.column - 1 : fault.column;
    throw badJson(name, { line, column }, fault.problem);
  }
}

/** A place in a text, both numbers from 1; columns count UTF-16 units, as editors and JSON.parse do. */
interface TextPlace {
  readonly line: number;
  readonly column: number;
}

/** Counts lines and columns of UTF-8 that comes in chunks. */
class TextCursor {
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

/** Cuts a stream of bytes, which comes in chunks of any size, into records. Throws a CliError for what it can't cut. */
export interface RecordSplitter {
  /** The records that end in this chunk. */
  push(chunk: Buffer): Buffer[];
  /** The records that end with the stream. */
  end(): Buffer[];
}

/** Largest record: it is held in memory as a whole. */
const MAX_RECORD_BYTES = 64 * 1024 * 1024;

const OPEN_BRACKET = 0x5b;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
/** An array at the beginning that is longer is the one that holds the records. */
const LEAD_BYTES = 1024 * 1024;

/**
 * Cuts a text into JSON values: lines of JSON, values one after the other, or the elements of one array. A text that
 * begins with an array is that array if nothing follows it, and a row of arrays if something does; the end
 * of a long array is not waited for.
 */
export class JsonSplitter implements RecordSplitter {
  readonly #name: string;
  readonly #leadBytes: number;
  #lead: Buffer = Buffer.alloc(0);
  #inner: RecordSplitter | undefined;

  /** `name`: of the source, for error messages. */
  constructor(name: string, { leadBytes = LEAD_BYTES }: { readonly leadBytes?: number } = {}) {
    this.#name = name;
    this.#leadBytes = leadBytes;
  }

  push(chunk: Buffer): Buffer[] {
    if (this.#inner) return this.#inner.push(chunk);
    this.#lead = Buffer.concat([this.#lead, chunk]);
    const frame = frameOf(this.#text(), this.#leadBytes);
    return frame === undefined ? [] : this.#begin(frame).push(this.#takeLead());
  }

  end(): Buffer[] {
    if (this.#inner) return this.#inner.end();
    const text = this.#text();
    const isArray = text[firstOf(text, 0)] === OPEN_BRACKET;
    const inner = this.#begin(isArray ? "array" : "values");
    return [...inner.push(this.#takeLead()), ...inner.end()];
  }

  #begin(frame: "values" | "array"): RecordSplitter {
    this.#inner = new ValueSplitter(this.#name, { frame });
    return this.#inner;
  }

  #takeLead(): Buffer {
    const text = this.#text();
    this.#lead = Buffer.alloc(0);
    return text;
  }

  /** What has come so far, without the mark that some programs put in front of UTF-8. */
  #text(): Buffer {
    const hasMark = this.#lead.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
    return hasMark ? this.#lead.subarray(BYTE_ORDER_MARK.length) : this.#lead;
  }
}

/** How a text that begins so is to be read; undefined if more of it must be seen. */
function frameOf(lead: Buffer, enoughBytes: number): "values" | "array" | undefined {
  if (lead.length < BYTE_ORDER_MARK.length) return undefined;
  const first = firstOf(lead, 0);
  if (first === lead.length) return lead.length >= enoughBytes ? "values" : undefined;
  if (lead[first] !== OPEN_BRACKET) return "values";
  const end = new ValueScan().scan(lead, first);
  const isAlone = end < 0 || firstOf(lead, end) === lead.length;
  if (!isAlone) return "values";
  return lead.length >= enoughBytes ? "array" : undefined;
}

/** Index of the first byte from `from` that is no white space; the length if there is none. */
function firstOf(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && isSpace(bytes[at] ?? 0)) at++;
  return at;
}

/** Cuts behind each newline. Every byte stays as it is, also those of a last line without one. */
export class LineSplitter implements RecordSplitter {
  readonly #name: string;
  readonly #maxBytes: number;
  #line = 1;
  #begun: Buffer[] = [];
  #begunBytes = 0;

  /** `name`: of the source, for error messages. */
  constructor(name: string, { maxBytes = MAX_RECORD_BYTES }: { readonly maxBytes?: number } = {}) {
    this.#name = name;
    this.#maxBytes = maxBytes;
  }

  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let start = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, start)) {
      lines.push(this.#close(chunk.subarray(start, at + 1)));
      start = at + 1;
    }
    if (start < chunk.length) this.#hold(chunk.subarray(start));
    return lines;
  }

  end(): Buffer[] {
    return this.#begunBytes === 0 ? [] : [this.#close(Buffer.alloc(0))];
  }

  #close(rest: Buffer): Buffer {
    this.#hold(rest);
    const line = this.#begun.length === 1 ? rest : Buffer.concat(this.#begun);
    this.#begun = [];
    this.#begunBytes = 0;
    this.#line++;
    return line;
  }

  #hold(bytes: Buffer): void {
    this.#begun.push(bytes);
    this.#begunBytes += bytes.length;
    if (this.#begunBytes <= this.#maxBytes) return;
    throw new CliError(
      `${this.#name}: line ${this.#line} is longer than ${this.#maxBytes} bytes, the most that one record may have; nothing was committed`,
      { code: "RecordTooLarge" },
    );
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** White space of JSON (RFC 8259 §2). */
function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * Finds where a JSON value ends whose bytes come in chunks: only quotes, backslashes and brackets count, which no byte
 * inside a character of UTF-8 can be taken for. What it finds is a value only if the text is JSON.
 */
class ValueScan {
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

const PUNCTUATION = new Set(Buffer.from('",:[]{}'));

/** Whether a number, true, false or null has ended before this byte. */
function endsWord(byte: number): boolean {
  return PUNCTUATION.has(byte) || isSpace(byte);
}
