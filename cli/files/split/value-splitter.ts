import { CliError } from "../../output/failure.ts";
import { jsonFault } from "../../spec/json-fault.ts";
import { MAX_RECORD_BYTES, type RecordSplitter } from "./record-splitter.ts";
import { isSpace, ValueScan } from "./value-scan.ts";

/** `values`: one after the other, with white space between them or none. `array`: the elements of one array. */
type Frame = "values" | "array";

/** What may come between two elements of the array. */
type Between = "open" | "element-or-close" | "element" | "comma-or-close" | "end";

const COMMA = 0x2c;
const OPEN = 0x5b;
const CLOSE = 0x5d;
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
        if (byte !== OPEN) throw fail("expected '['");
        this.#between = "element-or-close";
        return true;
      case "element-or-close":
        if (byte === CLOSE) this.#between = "end";
        return byte === CLOSE;
      case "element":
        if (byte === CLOSE) throw fail("there is a comma behind the last element");
        return false;
      case "comma-or-close":
        if (byte !== COMMA && byte !== CLOSE) throw fail("expected ',' or ']' behind the element");
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
  const text = decoded(bytes);
  if (text === undefined) throw badJson(name, start, "the value that begins here is not UTF-8");
  try {
    JSON.parse(text);
  } catch (error) {
    const fault = jsonFault(text);
    if (!fault) throw badJson(name, start, error instanceof Error ? error.message : String(error));
    const { line, column, problem } = fault;
    const isFirstLine = line === 1;
    throw badJson(
      name,
      { line: start.line + line - 1, column: isFirstLine ? start.column + column - 1 : column },
      problem,
    );
  }
}

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
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
