const EXTGLOB_MARKS = "@!+*?";
/** What picomatch reads as an operator and we read as the character itself. */
const LITERALS = '()|+"^$!@';

export type SplitSegments = { ok: true; segments: string[] } | { ok: false; problem: string };

type Token =
  /** Text for picomatch as it stands. */
  | { kind: "text"; text: string }
  /** `@(` and its like, and the characters that mean something only between it and its `)`. */
  | { kind: "open" | "close" | "or"; text: string }
  | { kind: "slash"; text: string }
  | { kind: "bad"; problem: string };

/**
 * Cuts a pattern without braces at its slashes and escapes what is no operator in our dialect, so that a file
 * called `report (1).csv` can be named as it is.
 */
export function splitSegments(pattern: string): SplitSegments {
  const segments: string[] = [];
  let current = "";
  let open = 0;
  for (let at = 0; at < pattern.length; ) {
    const token = tokenAt(pattern, at);
    if (token.kind === "bad") return { ok: false, problem: token.problem };
    at += token.text.length;
    if (token.kind === "slash" && open > 0) {
      return { ok: false, problem: "has a '/' inside '(…)': use braces, '{a/b,c}', to choose between paths" };
    }
    if (token.kind === "slash") {
      segments.push(current);
      current = "";
      continue;
    }
    const outside = open === 0;
    if (token.kind === "open") open++;
    if (token.kind === "close" && open > 0) open--;
    current +=
      outside && (token.kind === "close" || token.kind === "or") ? `\\${token.text}` : escaped(token);
  }
  if (open > 0) return { ok: false, problem: "has a '(' without its ')'" };
  return { ok: true, segments: [...segments, current] };
}

function escaped(token: Exclude<Token, { kind: "bad" }>): string {
  return token.kind === "text" && LITERALS.includes(token.text) ? `\\${token.text}` : token.text;
}

function tokenAt(pattern: string, at: number): Token {
  const character = pattern.charAt(at);
  if (EXTGLOB_MARKS.includes(character) && pattern.charAt(at + 1) === "(") {
    return { kind: "open", text: `${character}(` };
  }
  switch (character) {
    case "/":
      return { kind: "slash", text: character };
    case ")":
      return { kind: "close", text: character };
    case "|":
      return { kind: "or", text: character };
    case "\\":
      if (at + 1 < pattern.length) return { kind: "text", text: pattern.slice(at, at + 2) };
      return bad("ends in a single '\\': write '\\\\' for the character itself");
    case "]":
      return bad("has a ']' without its '[': write '\\]' for the character itself");
    case "[":
      return classAt(pattern, at);
    default:
      return { kind: "text", text: character };
  }
}

function classAt(pattern: string, at: number): Token {
  const end = classEnd(pattern, at);
  if (end === -1) return bad("has a '[' without its ']': write '\\[' for the character itself");
  const text = pattern.slice(at, end + 1);
  return text.includes("/")
    ? bad(`has a '/' inside '${text}', where it can never match`)
    : { kind: "text", text };
}

/** Where a character class that opens at `start` closes; -1 where it does not. A `]` that comes first is a member. */
export function classEnd(pattern: string, start: number): number {
  let at = start + 1;
  if (pattern.charAt(at) === "!" || pattern.charAt(at) === "^") at++;
  if (pattern.charAt(at) === "]") at++;
  for (; at < pattern.length; at++) {
    if (pattern.charAt(at) === "\\") at++;
    else if (pattern.startsWith("[:", at)) {
      const end = pattern.indexOf(":]", at + 2);
      if (end === -1) return -1;
      at = end + 1;
    } else if (pattern.charAt(at) === "]") return at;
  }
  return -1;
}

function bad(problem: string): Token {
  return { kind: "bad", problem };
}
