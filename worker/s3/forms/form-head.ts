import { S3Error } from "../answer/errors.ts";
import { MAX_FORM_FIELDS_BYTES } from "../limits.ts";
import { behindDelimiter, type Delimiter } from "./delimiter.ts";
import { parsePartHead } from "./part-head.ts";

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
      throw new S3Error("MaxPostPreDataLengthExceededError");
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
      throw new S3Error("InvalidArgument", {
        message: "POST requires exactly one file upload per request.",
        body: { form: "document", more: { ArgumentName: FILE, ArgumentValue: "0" } },
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
  return new S3Error("MalformedPOSTRequest", {
    message: `The body of your POST request is not well-formed multipart/form-data: ${what}.`,
  });
}
