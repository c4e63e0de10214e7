import { StringDecoder } from "node:string_decoder";
import { MAX_LOG_LINE_CHARACTERS } from "../../protocol/runner.ts";

const NEWLINE = 10;

/** Makes lines of bytes: UTF-8, of which what is invalid is replaced; a line that is too long becomes several. */
export class LineSplitter {
  readonly #decoder = new StringDecoder("utf8");
  /** The line that has not ended; never longer than a line may be. */
  #text = "";
  /** The start of that line has been given out. */
  #begun = false;

  /** Takes the bytes from `start` to the end of their line, or all if it does not end there. Returns where it stopped, and the complete lines. */
  next(bytes: Buffer, start: number): { stop: number; lines: string[] } {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline;
    this.#text += this.#decoder.write(bytes.subarray(start, end));
    const lines = this.#cut();
    if (newline < 0) return { stop: end, lines };
    return { stop: end + 1, lines: [...lines, ...this.#end()] };
  }

  /** Whether there is a line that has not ended. */
  get unfinished(): boolean {
    return this.#text !== "";
  }

  /** The line that has not ended, as far as it has come. What follows will be a line of its own. */
  flush(): string[] {
    if (this.#text === "") return [];
    const line = withoutReturn(this.#text);
    this.#text = "";
    this.#begun = true;
    return [line];
  }

  /** Like `flush`, but at the end: nothing more will come. */
  finish(): string[] {
    this.#text += this.#decoder.end();
    return [...this.#cut(), ...this.flush()];
  }

  #end(): string[] {
    this.#text += this.#decoder.end();
    const lines = this.#cut();
    const last = withoutReturn(this.#text);
    const wanted = last !== "" || !this.#begun;
    this.#text = "";
    this.#begun = false;
    return wanted ? [...lines, last] : lines;
  }

  #cut(): string[] {
    const lines: string[] = [];
    while (this.#text.length > MAX_LOG_LINE_CHARACTERS) {
      const at = endOfPiece(this.#text);
      lines.push(this.#text.slice(0, at));
      this.#text = this.#text.slice(at);
      this.#begun = true;
    }
    return lines;
  }
}

function withoutReturn(text: string): string {
  return text.endsWith("\r") ? text.slice(0, -1) : text;
}

/** Not between the two halves of one character. */
function endOfPiece(text: string): number {
  const last = text.charCodeAt(MAX_LOG_LINE_CHARACTERS - 1);
  return last >= 0xd800 && last < 0xdc00 ? MAX_LOG_LINE_CHARACTERS - 1 : MAX_LOG_LINE_CHARACTERS;
}
