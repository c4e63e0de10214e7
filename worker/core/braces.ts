import { classEnd } from "./glob-class.ts";

/** A fault of a pattern, in words. `at`: its index in the pattern. */
export interface GlobFault {
  readonly ok: false;
  readonly problem: string;
  readonly at: number;
}

export type Expanded = { readonly ok: true; readonly patterns: string[] } | GlobFault;

/** Bounds on what braces may stand for. */
export interface BraceLimits {
  readonly patterns: number;
  /** Of all patterns together. */
  readonly characters: number;
}

/**
 * The patterns that a pattern with alternatives stands for: `a{b,c/d}` is `ab` and `ac/d`. Braces nest. `\{` is the
 * character itself, and so is a brace inside `[…]`. More patterns than the limits allow are refused.
 */
export function expandBraces(pattern: string, limits: BraceLimits): Expanded {
  const open = firstBrace(pattern);
  if (open === -1) return { ok: true, patterns: [pattern] };
  if (pattern.charAt(open) === "}")
    return fault("has a '}' without its '{': write '\\}' for the character itself", open);
  const group = readGroup(pattern, open);
  if (!group) return fault("has a '{' without its '}': write '\\{' for the character itself", open);
  const [only, ...others] = group.choices;
  if (only && others.length === 0 && /^[^\\]+\.\.[^\\]+$/.test(only.text)) {
    return fault(`has the range '{${only.text}}': list its members, '{1,2,3}'`, open);
  }
  const rest = moved(expandBraces(pattern.slice(group.end + 1), limits), group.end + 1);
  if (!rest.ok) return rest;
  const before = pattern.slice(0, open);
  const patterns: string[] = [];
  let characters = 0;
  for (const { text, at } of group.choices) {
    const inner = moved(expandBraces(text, limits), at);
    if (!inner.ok) return inner;
    for (const middle of inner.patterns) {
      for (const tail of rest.patterns) {
        characters += before.length + middle.length + tail.length;
        if (patterns.push(before + middle + tail) > limits.patterns || characters > limits.characters)
          return fault(
            `stands for more than ${limits.patterns} patterns, or for very long ones: use fewer braces`,
            open,
          );
      }
    }
  }
  return { ok: true, patterns };
}

/** The index of the first brace that is neither escaped nor in a character class; -1 if there is none. */
function firstBrace(pattern: string): number {
  for (let at = 0; at < pattern.length; at = next(pattern, at)) {
    if (pattern.charAt(at) === "{" || pattern.charAt(at) === "}") return at;
  }
  return -1;
}

interface Choice {
  readonly text: string;
  readonly at: number;
}

function readGroup(pattern: string, open: number): { end: number; choices: Choice[] } | undefined {
  const choices: Choice[] = [];
  let depth = 0;
  let start = open + 1;
  for (let at = open; at < pattern.length; at = next(pattern, at)) {
    const character = pattern.charAt(at);
    if (character === "{") depth++;
    else if (character === "}") depth--;
    if (depth === 0 || (depth === 1 && character === ",")) {
      choices.push({ text: pattern.slice(start, at), at: start });
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

function moved(expanded: Expanded, by: number): Expanded {
  return expanded.ok ? expanded : { ...expanded, at: expanded.at + by };
}

function fault(problem: string, at: number): GlobFault {
  return { ok: false, problem, at };
}
