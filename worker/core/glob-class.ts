/** Whether one character, a whole code point, matches. */
export type CharacterTest = (character: string) => boolean;

export type ParsedClass =
  | { readonly ok: true; readonly test: CharacterTest }
  | { readonly ok: false; readonly problem: string };

/** POSIX classes (IEEE Std 1003.1, "RE Bracket Expression"), in the C locale. */
const POSIX: Readonly<Record<string, RegExp>> = {
  alnum: /[A-Za-z0-9]/,
  alpha: /[A-Za-z]/,
  blank: /[ \t]/,
  cntrl: /[\u0000-\u001f\u007f]/,
  digit: /[0-9]/,
  graph: /[!-~]/,
  lower: /[a-z]/,
  print: /[ -~]/,
  punct: /[!-/:-@[-`{-~]/,
  space: /[ \t-\r]/,
  upper: /[A-Z]/,
  xdigit: /[A-Fa-f0-9]/,
};

/** The index at which a character class that opens at `start` closes; -1 if it does not. A `]` that comes first is a member. */
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

/** Reads a whole class, such as `[a-z]`, `[!0-9]` or `[[:digit:]_]`. */
export function parseClass(text: string): ParsedClass {
  const negated = text.charAt(1) === "!" || text.charAt(1) === "^";
  const members: CharacterTest[] = [];
  for (let rest = text.slice(negated ? 2 : 1, -1); rest !== ""; ) {
    const member = readMember(rest);
    if (!member.ok) return { ok: false, problem: `${member.problem} in '${text}'` };
    members.push(member.test);
    rest = rest.slice(member.length);
  }
  return { ok: true, test: (character) => members.some((test) => test(character)) !== negated };
}

type Member =
  | { readonly ok: true; readonly test: CharacterTest; readonly length: number }
  | { readonly ok: false; readonly problem: string };

function readMember(rest: string): Member {
  const posix = /^\[:(.*?):\]/s.exec(rest);
  if (posix) {
    const test = POSIX[posix[1] as string];
    if (test) return { ok: true, test: (character) => test.test(character), length: posix[0].length };
    return {
      ok: false,
      problem: `has the class '${posix[0]}', which is none of ${Object.keys(POSIX).join(", ")},`,
    };
  }
  const [, first, last] = /^(\\.|.)(?:-(\\.|[^\]]))?/su.exec(rest) as unknown as [string, string, string?];
  const low = pointOf(first);
  const high = last === undefined ? low : pointOf(last);
  const length = first.length + (last === undefined ? 0 : 1 + last.length);
  if (high < low) return { ok: false, problem: `has the range '${first}-${last}', which runs backwards,` };
  return {
    ok: true,
    test: (character) => {
      const point = pointOf(character);
      return low <= point && point <= high;
    },
    length,
  };
}

/** The code point of a character, also of an escaped one. */
function pointOf(text: string): number {
  const character = text.length > 1 && text.startsWith("\\") ? text.slice(1) : text;
  return character.codePointAt(0) as number;
}
