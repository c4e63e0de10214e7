import { classEnd } from "./glob-segments.ts";

export type Expanded = { ok: true; patterns: string[] } | { ok: false; problem: string };

/**
 * What a pattern with alternatives stands for: `a{b,c/d}` is `ab` and `ac/d`. Braces nest; `\{` is the character,
 * and inside `[…]` a brace is one too. More than `limit` patterns are refused.
 */
export function expandBraces(pattern: string, limit: number): Expanded {
  const open = firstBrace(pattern);
  if (open === -1) return { ok: true, patterns: [pattern] };
  if (pattern.charAt(open) === "}")
    return bad("has a '}' without its '{': write '\\}' for the character itself");
  const group = readGroup(pattern, open);
  if (!group) return bad("has a '{' without its '}': write '\\{' for the character itself");
  if (group.choices.length === 1 && /^[^\\]+\.\.[^\\]+$/.test(group.choices[0] as string)) {
    return bad(`has the range '{${group.choices[0]}}': list its members, '{1,2,3}'`);
  }
  const rest = expandBraces(pattern.slice(group.end + 1), limit);
  if (!rest.ok) return rest;
  const patterns: string[] = [];
  for (const choice of group.choices) {
    const inner = expandBraces(choice, limit);
    if (!inner.ok) return inner;
    if (patterns.length + inner.patterns.length * rest.patterns.length > limit) {
      return bad(`stands for more than ${limit} patterns: use fewer braces`);
    }
    for (const middle of inner.patterns) {
      for (const tail of rest.patterns) patterns.push(pattern.slice(0, open) + middle + tail);
    }
  }
  return { ok: true, patterns };
}

/** Where the first brace is that is neither escaped nor in a character class; -1 where there is none. */
function firstBrace(pattern: string): number {
  for (let at = 0; at < pattern.length; at = next(pattern, at)) {
    if (pattern.charAt(at) === "{" || pattern.charAt(at) === "}") return at;
  }
  return -1;
}

function readGroup(pattern: string, open: number): { end: number; choices: string[] } | undefined {
  const choices: string[] = [];
  let depth = 0;
  let start = open + 1;
  for (let at = open; at < pattern.length; at = next(pattern, at)) {
    const character = pattern.charAt(at);
    if (character === "{") depth++;
    else if (character === "}") depth--;
    if (depth === 0 || (depth === 1 && character === ",")) {
      choices.push(pattern.slice(start, at));
      start = at + 1;
    }
    if (depth === 0) return { end: at, choices };
  }
  return undefined;
}

/** The position after the character, escape or character class at `at`. */
function next(pattern: string, at: number): number {
  if (pattern.charAt(at) === "\\") return at + 2;
  if (pattern.charAt(at) !== "[") return at + 1;
  return Math.max(classEnd(pattern, at), at) + 1;
}

function bad(problem: string): { ok: false; problem: string } {
  return { ok: false, problem };
}
