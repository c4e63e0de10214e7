/** The place at which a text stops being JSON, and the reason. */
export interface JsonFault {
  /** Both from 1. */
  readonly line: number;
  readonly column: number;
  readonly problem: string;
}

/** The first thing that is wrong with a text that is not JSON; undefined if it is JSON (RFC 8259). */
export function jsonFault(text: string): JsonFault | undefined {
  try {
    new Reader(text).document();
    return undefined;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const lines = text.slice(0, error.at).split("\n");
    return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1, problem: error.message };
  }
}

class Fault extends Error {
  readonly at: number;

  constructor(problem: string, at: number) {
    super(problem);
    this.at = at;
  }
}

/** A text that nests deeper is no specification, and would be a recursion too deep. */
const MAX_DEPTH = 200;

/** Reads over a text and throws a Fault if it can't go on. */
class Reader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): void {
    this.#value();
    this.#space();
    if (this.#peek() === "{")
      throw new Fault("another object begins: give each pipeline a file of its own", this.#at);
    if (this.#at < this.#text.length) throw new Fault("there is more text behind the end", this.#at);
  }

  #value(): void {
    this.#space();
    const character = this.#peek();
    if (character === "{") this.#list("}", () => this.#member());
    else if (character === "[") this.#list("]", () => this.#value());
    else if (character === '"') this.#string();
    else this.#word();
  }

  /** What stands between brackets, with commas. */
  #list(close: "}" | "]", entry: () => void): void {
    const open = this.#at++;
    if (++this.#depth > MAX_DEPTH) throw new Fault("this nests too deep", open);
    this.#space();
    if (!this.#take(close)) {
      for (;;) {
        entry();
        this.#space();
        if (this.#take(close)) break;
        const comma = this.#at;
        if (!this.#take(",")) throw new Fault(this.#missingComma(open, close), this.#at);
        this.#space();
        if (this.#peek() === close) throw new Fault("there is a comma behind the last entry", comma);
      }
    }
    this.#depth--;
  }

  #missingComma(open: number, close: string): string {
    if (this.#at < this.#text.length) return `expected ',' or '${close}'`;
    const line = this.#text.slice(0, open).split("\n").length;
    return `the text ends before the '${close}' to the '${this.#text.charAt(open)}' of line ${line}`;
  }

  #member(): void {
    this.#space();
    if (this.#peek() !== '"') throw new Fault('expected a name in double quotes, such as "glob"', this.#at);
    this.#string();
    this.#space();
    if (!this.#take(":")) throw new Fault("expected ':' behind the name", this.#at);
    this.#value();
  }

  #string(): void {
    const open = this.#at++;
    for (;;) {
      const [plain = ""] = /^[^"\\\u0000-\u001f]*/.exec(this.#text.slice(this.#at, this.#at + CHUNK)) ?? [];
      this.#at += plain.length;
      if (plain.length === CHUNK) continue;
      const character = this.#peek();
      if (character === "") throw new Fault("the text ends inside this string", open);
      if (character === '"') break;
      if (character !== "\\") throw new Fault("a string can't hold this: write \\n, \\t or \\u…", this.#at);
      const [escaped] =
        /^\\(["\\/bfnrt]|u[0-9a-fA-F]{4})/.exec(this.#text.slice(this.#at, this.#at + 6)) ?? [];
      if (escaped === undefined) throw new Fault("'\\' is followed by what JSON does not know", this.#at);
      this.#at += escaped.length;
    }
    this.#at++;
  }

  #word(): void {
    const [word = ""] = /^[^\s,:[\]{}"]+/.exec(this.#text.slice(this.#at, this.#at + CHUNK)) ?? [];
    if (/^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?)$/.test(word)) this.#at += word.length;
    else if (word === "" && this.#at === this.#text.length)
      throw new Fault("the text ends too early", this.#at);
    else if (word.startsWith("'")) throw new Fault("strings stand in double quotes", this.#at);
    else throw new Fault(`'${word === "" ? this.#peek() : word}' is no value`, this.#at);
  }

  #space(): void {
    while (SPACE.includes(this.#text.charAt(this.#at)) && this.#at < this.#text.length) this.#at++;
    if (/^(#|\/[/*])/.test(this.#text.slice(this.#at, this.#at + 2))) {
      throw new Fault("JSON has no comments", this.#at);
    }
  }

  #peek(): string {
    return this.#text.charAt(this.#at);
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }
}

const SPACE = " \t\n\r";
/** Characters looked at in one go. */
const CHUNK = 1024;
