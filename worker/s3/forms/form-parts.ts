import type { ByteSource } from "../../blobs/body-reader.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { AHEAD_BYTES, type ByteView, FramedSource } from "../body/framed-source.ts";
import { MAX_FORM_FIELDS_BYTES } from "../limits.ts";

/** One field of a form, before its file. */
export interface FormField {
  /** In lower case. */
  readonly name: string;
  readonly value: string;
}

/** A form as far as its file. */
export interface FormHead {
  /** In the order sent. */
  readonly fields: readonly FormField[];
  /** As the sender named the file; "" if it did not. */
  readonly filename: string;
  /** How many bytes came before those of the file. */
  readonly length: number;
}

const HEADERS_END = new TextEncoder().encode("\r\n\r\n");
const FILE = "file";

/**
 * Reads the fields of multipart/form-data (RFC 7578) up to its file, which S3 wants last. Bytes go in split wherever they
 * come, and are held until the file begins: S3 bounds them. Throws MalformedPOSTRequest, InvalidArgument if the form ends
 * without a file, and MaxPostPreDataLengthExceededError.
 */
export class FormHeadReader {
  readonly #delimiter: Delimiter;
  readonly #fields: FormField[] = [];
  /** All bytes so far. Before the first stands a CRLF, so that the first delimiter is as all others. */
  #held: Uint8Array<ArrayBuffer> = new Uint8Array([13, 10]);
  #state: "start" | "behind-delimiter" | "headers" | "value" = "start";
  /** Where the present state began. */
  #at = 0;
  /** The search for its end goes on from here. */
  #searched = 0;
  /** Of the present value. */
  #name = "";

  constructor(delimiter: Delimiter) {
    this.#delimiter = delimiter;
  }

  /** What came behind the head. */
  get rest(): Uint8Array<ArrayBuffer> {
    return this.#held.slice(this.#at);
  }

  /** Takes in the next bytes. Returns undefined until the file begins. */
  push(bytes: Uint8Array): FormHead | undefined {
    const held = new Uint8Array(this.#held.length + bytes.length);
    held.set(this.#held);
    held.set(bytes, this.#held.length);
    this.#held = held;
    const head = this.#read();
    if ((head?.length ?? held.length - 2) > MAX_FORM_FIELDS_BYTES) {
      if (this.#state === "start") throw malformed("it does not have the boundary that Content-Type names");
      throw s3Error.MaxPostPreDataLengthExceededError();
    }
    return head;
  }

  #read(): FormHead | undefined {
    for (;;) {
      switch (this.#state) {
        case "start":
          if (!this.#start()) return undefined;
          break;
        case "behind-delimiter":
          if (!this.#beginPart()) return undefined;
          break;
        case "headers": {
          const filename = this.#readHeaders();
          if (filename === "more") return undefined;
          if (filename !== "field") {
            return { fields: this.#fields, filename: filename.file, length: this.#at - 2 };
          }
          break;
        }
        case "value":
          if (!this.#readValue()) return undefined;
          break;
      }
    }
  }

  /** What stands before the first delimiter means nothing (RFC 2046 §5.1.1): some senders put a CRLF there. */
  #start(): boolean {
    const { at, whole } = this.#delimiter.find(this.#held, this.#searched);
    this.#searched = at;
    if (whole) this.#go("behind-delimiter", at + this.#delimiter.bytes.length);
    return whole;
  }

  #beginPart(): boolean {
    const { what, length } = behindDelimiter(this.#held.subarray(this.#at));
    if (what === "unknown") return false;
    if (what === "broken") throw malformed("a boundary has something behind it in its line");
    if (what === "end") {
      throw s3Error.InvalidArgument("POST requires exactly one file upload per request.", {
        more: { ArgumentName: FILE, ArgumentValue: "0" },
      });
    }
    this.#go("headers", this.#at + length);
    return true;
  }

  #readHeaders(): "more" | "field" | { readonly file: string } {
    const end = indexOf(this.#held, { wanted: HEADERS_END, from: this.#searched });
    if (end === -1) {
      this.#searched = Math.max(this.#at, this.#held.length - HEADERS_END.length + 1);
      return "more";
    }
    const head = parsePartHead(decode(this.#held.subarray(this.#at, end)));
    if (typeof head === "string") throw malformed(head);
    const name = head.name.toLowerCase();
    this.#name = name;
    this.#go("value", end + HEADERS_END.length);
    return name === FILE ? { file: head.filename ?? "" } : "field";
  }

  #readValue(): boolean {
    const { at, whole } = this.#delimiter.find(this.#held, this.#searched);
    if (!whole) {
      this.#searched = at;
      return false;
    }
    this.#fields.push({ name: this.#name, value: decode(this.#held.subarray(this.#at, at)) });
    this.#go("behind-delimiter", at + this.#delimiter.bytes.length);
    return true;
  }

  #go(state: "behind-delimiter" | "headers" | "value", at: number): void {
    this.#state = state;
    this.#at = at;
    this.#searched = at;
  }
}

function indexOf(bytes: Uint8Array, { wanted, from }: { wanted: Uint8Array; from: number }): number {
  const [first = 0] = wanted;
  for (let at = bytes.indexOf(first, from); at !== -1; at = bytes.indexOf(first, at + 1)) {
    if (at + wanted.length > bytes.length) return -1;
    if (wanted.every((byte, index) => bytes[at + index] === byte)) return at;
  }
  return -1;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw malformed("a field is not UTF-8");
  }
}

/** MalformedPOSTRequest that says what is wrong. */
export function malformed(what: string): S3Error {
  return s3Error.MalformedPOSTRequest(
    `The body of your POST request is not well-formed multipart/form-data: ${what}.`,
  );
}

/** What the headers of a part of a form say of it. */
interface PartHead {
  readonly name: string;
  /** As the sender wrote it; undefined if it is not sent. */
  readonly filename: string | undefined;
}

/** One parameter of a header: a name, then a token or a quoted string (RFC 9110 §5.6.6). */
const PARAMETER =
  /;[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"\s]*))[ \t]*/gy;

/** Reads the headers of a part, without the empty line behind them. Returns a text if something is wrong with them. */
export function parsePartHead(text: string): PartHead | string {
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) return "a header of a part is not '<name>: <value>'";
    if (line.slice(0, colon).trim().toLowerCase() !== "content-disposition") continue;
    return parseDisposition(line.slice(colon + 1).trim());
  }
  return "a part has no Content-Disposition";
}

function parseDisposition(value: string): PartHead | string {
  const kind = /^form-data[ \t]*/i.exec(value)?.[0];
  if (kind === undefined) return "the Content-Disposition of a part is not form-data";
  const parameters = new Map<string, string>();
  PARAMETER.lastIndex = kind.length;
  for (let end = kind.length; end < value.length; end = PARAMETER.lastIndex) {
    const [, name, quoted, token] = PARAMETER.exec(value) ?? [];
    if (name === undefined) return "the Content-Disposition of a part is malformed";
    // Browsers escape a quote as %22. A backslash stands for itself, as in the paths of Windows, but before a quote.
    parameters.set(name.toLowerCase(), quoted?.replace(/\\(["\\])/g, "$1") ?? token ?? "");
  }
  const name = parameters.get("name");
  if (!name) return "a part has no name";
  return { name, filename: extended(parameters.get("filename*")) ?? parameters.get("filename") };
}

/** The text of `filename*` (RFC 8187), which some send for a name that is not ASCII; undefined if it is none. */
function extended(value: string | undefined): string | undefined {
  const encoded = /^utf-8'[^']*'(.*)$/i.exec(value ?? "")?.[1];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

const CR = 13;

/** Where a delimiter lies in bytes. */
interface Found {
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
type Behind = "part" | "end" | "broken" | "unknown";

/** Reads up to two bytes behind a delimiter; unknown if they have not come. White space before the end of the line is let through. */
function behindDelimiter(bytes: Uint8Array): { readonly what: Behind; readonly length: number } {
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

/** What the file of a form is read from. */
interface FormFileOptions {
  readonly raw: ByteSource;
  readonly delimiter: Delimiter;
  /** What came with the head, behind it. */
  readonly ahead: ByteView;
  /** Most bytes that are given out. What has more is refused. */
  readonly max: number;
  /** The refusal. */
  readonly tooLarge: () => S3Error;
}

/**
 * The bytes of a form's file: they end at the delimiter, and what comes behind it is ignored, as S3 does. Only what may be the
 * beginning of a delimiter is held back.
 */
export class FormFile extends FramedSource {
  readonly #options: FormFileOptions;
  #given = 0;

  constructor(options: FormFileOptions) {
    super(options.raw, options.ahead);
    this.#options = options;
  }

  protected override async takeAhead(room: ByteView): Promise<number> {
    const { delimiter } = this.#options;
    const { at, whole } = delimiter.find(this.ahead);
    if (at > 0) {
      const bytes = this.ahead.subarray(0, Math.min(at, room.length));
      const given = this.#give(bytes.length);
      room.set(bytes);
      this.ahead = this.ahead.subarray(given);
      return given;
    }
    const { what } = whole
      ? behindDelimiter(this.ahead.subarray(delimiter.bytes.length))
      : { what: "unknown" };
    if (what === "broken") throw malformed("a boundary has something behind it in its line");
    if (what !== "unknown") this.state = "ended";
    else await this.#readMore();
    return 0;
  }

  protected override takeInPlace(raw: ByteView): number {
    const { at } = this.#options.delimiter.find(raw);
    this.ahead = raw.slice(at);
    return this.#give(at);
  }

  protected override atRawEnd(): never {
    throw malformed("it ends before the boundary that ends the file");
  }

  async #readMore(): Promise<void> {
    if (this.state !== "open") this.atRawEnd();
    const before = this.ahead;
    const more = await this.readRaw(new Uint8Array(AHEAD_BYTES), 1);
    this.ahead = new Uint8Array(before.length + more.length);
    this.ahead.set(before);
    this.ahead.set(more, before.length);
  }

  /** Counts bytes that are about to be given out. Throws if they are more than may be. */
  #give(count: number): number {
    this.#given += count;
    if (this.#given > this.#options.max) throw this.#options.tooLarge();
    return count;
  }
}
