import type { GlobFault } from "./braces.ts";
import { type CharacterTest, classEnd, parseClass } from "./glob-class.ts";

/** A part of a segment. */
export type Piece =
  /** One character; `literal` is set if only that one matches. */
  | { readonly kind: "one"; readonly test: CharacterTest; readonly literal?: string }
  /** Any number of characters, also none. */
  | { readonly kind: "star" }
  /** One of the choices: once (`@`), at most once (`?`), any number of times (`*`), at least once (`+`). */
  | { readonly kind: "group"; readonly mark: string; readonly choices: readonly (readonly Piece[])[] }
  /** Anything but the choices. It is always the end of its segment. */
  | { readonly kind: "except"; readonly choices: readonly (readonly Piece[])[] };

/** What matches the name of one file or directory on the way; `**` matches any number of names. */
export type Segment = "**" | readonly Piece[];

export type ParsedSegments = { readonly ok: true; readonly segments: Segment[] } | GlobFault;

const GROUP_MARKS = "@!+*?";

/** Reads a pattern without braces and without its leading slash. */
export function parseSegments(pattern: string): ParsedSegments {
  try {
    return { ok: true, segments: new Reader(pattern).segments() };
  } catch (error) {
    if (error instanceof Fault) return { ok: false, problem: error.message, at: error.at };
    throw error;
  }
}

class Fault extends Error {
  readonly at: number;

  constructor(problem: string, at: number) {
    super(problem);
    this.at = at;
  }
}

/** A recursive descent over one pattern; it throws a Fault and never leaves this file. */
class Reader {
  readonly #pattern: string;
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  segments(): Segment[] {
    const segments: Segment[] = [this.#segment()];
    while (this.#take("/")) segments.push(this.#segment());
    return segments;
  }

  #segment(): Segment {
    const start = this.#at;
    const pieces = this.#pieces({ inGroup: false });
    const text = this.#pattern.slice(start, this.#at);
    if (text === "") throw new Fault("has an empty segment: '//' matches nothing", start);
    if (text === "." || text === "..") throw new Fault(`has the segment '${text}', which no path has`, start);
    if (text === "**") return "**";
    this.#checkExcept(pieces, start);
    return pieces;
  }

  /** Up to a slash or the end, in a group up to its `|` or `)`. */
  #pieces({ inGroup }: { inGroup: boolean }): Piece[] {
    const pieces: Piece[] = [];
    for (;;) {
      const character = this.#peek();
      if (character === "" || character === "/") return pieces;
      if (inGroup && (character === "|" || character === ")")) return pieces;
      pieces.push(this.#piece(character));
    }
  }

  #piece(character: string): Piece {
    if (GROUP_MARKS.includes(character) && this.#pattern.charAt(this.#at + 1) === "(") return this.#group();
    switch (character) {
      case "*":
        this.#at++;
        return { kind: "star" };
      case "?":
        this.#at++;
        return { kind: "one", test: () => true };
      case "[":
        return this.#class();
      case "]":
        throw new Fault("has a ']' without its '[': write '\\]' for the character itself", this.#at);
      case "\\":
        return this.#escape();
      default:
        return this.#literal();
    }
  }

  #group(): Piece {
    const start = this.#at;
    const mark = this.#peek();
    this.#at += 2;
    const choices = [this.#pieces({ inGroup: true })];
    while (this.#take("|")) choices.push(this.#pieces({ inGroup: true }));
    if (this.#peek() === "/") {
      throw new Fault("has a '/' inside '(…)': use braces, '{a/b,c}', to choose between paths", this.#at);
    }
    if (!this.#take(")")) throw new Fault("has a '(' without its ')'", start + 1);
    for (const choice of choices) {
      if (choice.some(({ kind }) => kind === "except")) {
        throw new Fault("has '!(…)' inside another '(…)': it can only be the end of a segment", start);
      }
    }
    return mark === "!" ? { kind: "except", choices } : { kind: "group", mark, choices };
  }

  #class(): Piece {
    const start = this.#at;
    const end = classEnd(this.#pattern, start);
    if (end === -1) throw new Fault("has a '[' without its ']': write '\\[' for the character itself", start);
    const text = this.#pattern.slice(start, end + 1);
    if (text.includes("/")) throw new Fault(`has a '/' inside '${text}', where it can never match`, start);
    const parsed = parseClass(text);
    if (!parsed.ok) throw new Fault(parsed.problem, start);
    this.#at = end + 1;
    return { kind: "one", test: parsed.test };
  }

  #escape(): Piece {
    const escaped = this.#pattern.charAt(this.#at + 1);
    if (escaped === "")
      throw new Fault("ends in a single '\\': write '\\\\' for the character itself", this.#at);
    if (escaped === "/") throw new Fault("has a '\\' before a '/', which no name holds", this.#at);
    this.#at++;
    return this.#literal();
  }

  #literal(): Piece {
    const literal = String.fromCodePoint(this.#pattern.codePointAt(this.#at) as number);
    this.#at += literal.length;
    return { kind: "one", test: (character) => character === literal, literal };
  }

  // With something open-ended before or anything behind it, "not this" would exclude next to nothing.
  #checkExcept(pieces: readonly Piece[], start: number): void {
    const except = pieces.findIndex(({ kind }) => kind === "except");
    if (except === -1) return;
    if (except < pieces.length - 1) {
      throw new Fault("has something behind '!(…)', which can only be the end of a segment", start);
    }
    if (pieces.slice(0, except).some(isOpenEnded)) {
      throw new Fault(
        "has a '*' before '!(…)', which then excludes nothing: put it inside, '!(*.csv)'",
        start,
      );
    }
  }

  #peek(): string {
    return this.#pattern.charAt(this.#at);
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }
}

function isOpenEnded(piece: Piece): boolean {
  if (piece.kind === "star") return true;
  return (
    piece.kind === "group" &&
    (piece.mark === "*" || piece.mark === "+" || piece.choices.some((choice) => choice.some(isOpenEnded)))
  );
}
