import { CliError } from "../../output/failure.ts";
import { MAX_RECORD_BYTES, type RecordSplitter } from "./record-splitter.ts";

const NEWLINE = 0x0a;

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
