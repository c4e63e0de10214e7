import type { RecordSplitter } from "./record-splitter.ts";
import { isSpace, ValueScan } from "./value-scan.ts";
import { ValueSplitter } from "./value-splitter.ts";

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
