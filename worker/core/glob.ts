import { expandBraces, type GlobFault } from "./braces.ts";
import type { CharacterTest } from "./glob-class.ts";
import { type Piece, parseSegments, type Segment } from "./glob-segments.ts";

/**
 * Which files and directories of an input are datums. A glob is applied to the root of the repo: `/` is the root
 * itself, `/*` every entry directly under it. Within a segment: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:digit:]]`, `@(a|b)`,
 * `+(a)`, `*(a)`, `?(a)`, at its end `!(a)`; braces `{a,b}` may span segments; `\` takes the next character as it is. Nothing within a segment matches `/`. A segment `**` stands for any number of segments; at
 * the end for at least one, so that `/a/**` is what lies in `/a` and not `/a` itself. Dot files match like any other;
 * a character is a Unicode code point.
 */
export interface Glob {
  /** As it is kept and shown: with a leading slash, without a trailing one. */
  readonly text: string;
  /** What every path that matches begins with. */
  readonly prefix: string;
  /** Whether a path belongs to the glob: no leading or trailing slash, "" for the root. */
  matches(path: string): boolean;
  /** Whether something below a directory could belong to the glob. */
  mayMatchBelow(directory: string): boolean;
}

type ParsedGlob =
  | { readonly ok: true; readonly glob: Glob }
  | { readonly ok: false; readonly problem: string };

const BRACE_LIMITS = { patterns: 256, characters: 65_536 };
const MAX_GLOB_CHARACTERS = 1024;
const ROOT = "/";

/** A segment, ready to be used. */
type Step = "**" | ((name: string) => boolean);

/** Leading slash added, trailing one removed: "" and "/" are both the root, "*" is "/*". */
export function normaliseGlob(text: string): string {
  return `/${text.replace(/^\/|(?<=(?<!\\)(?:\\\\)*)\/$/g, "")}`;
}

/** Reads a glob. A bad one gives its problem and the place of it, in words for the writer of the spec. */
export function parseGlob(text: string): ParsedGlob {
  const normal = normaliseGlob(text);
  if (normal === ROOT) return { ok: true, glob: ROOT_GLOB };
  if (normal.length > MAX_GLOB_CHARACTERS)
    return { ok: false, problem: `is longer than ${MAX_GLOB_CHARACTERS} characters` };
  if (!normal.isWellFormed()) return { ok: false, problem: "is not valid Unicode" };
  const pattern = normal.slice(1);
  const expanded = expandBraces(pattern, BRACE_LIMITS);
  if (!expanded.ok) return located(expanded, { text });
  const patterns: Segment[][] = [];
  for (const alternative of expanded.patterns) {
    const parsed = parseSegments(alternative);
    if (!parsed.ok) return located(parsed, alternative === pattern ? { text } : { text, alternative });
    patterns.push(parsed.segments);
  }
  return { ok: true, glob: globOf(normal, patterns) };
}

/** The directories above a path, from the root down: "a/b/c" gives "", "a", "a/b"; the empty directory "a/b/" too. */
export function ancestors(path: string): string[] {
  const above = [""];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) above.push(path.slice(0, at));
  return path.endsWith("/") ? above.slice(0, -1) : above;
}

const ROOT_GLOB: Glob = {
  text: ROOT,
  prefix: "",
  matches: (path) => path === "",
  mayMatchBelow: () => false,
};

function globOf(text: string, patterns: readonly (readonly Segment[])[]): Glob {
  const walks = patterns.map(stepsOf);
  return {
    text,
    prefix: patterns.map(prefixOf).reduce(commonStart),
    matches: (path) =>
      path !== "" && walks.some((steps) => reached(steps, path.split("/")).has(steps.length)),
    mayMatchBelow(directory) {
      const names = directory === "" ? [] : directory.split("/");
      return walks.some((steps) => [...reached(steps, names)].some((step) => step < steps.length));
    },
  };
}

function stepsOf(segments: readonly Segment[]): Step[] {
  const steps = segments.map((segment): Step => (segment === "**" ? "**" : segmentMatcher(segment)));
  // What is in a directory, not the directory itself: at least one name.
  if (steps.at(-1) === "**") steps.push(() => true);
  return steps;
}

/** How many steps these names may have taken: several numbers if there is a `**`. */
function reached(steps: readonly Step[], names: readonly string[]): ReadonlySet<number> {
  let here = pastStars(steps, [0]);
  for (const name of names) {
    const next: number[] = [];
    for (const at of here) {
      const step = steps[at];
      if (step === "**") next.push(at);
      else if (step?.(name)) next.push(at + 1);
    }
    if (next.length === 0) return new Set();
    here = pastStars(steps, next);
  }
  return here;
}

/** A `**` may stand for nothing. */
function pastStars(steps: readonly Step[], from: readonly number[]): Set<number> {
  const here = new Set(from);
  for (const at of here) if (steps[at] === "**") here.add(at + 1);
  return here;
}

function prefixOf(segments: readonly Segment[]): string {
  let prefix = "";
  for (const [index, segment] of segments.entries()) {
    if (segment === "**") return prefix;
    const { text, whole } = literalStart(segment);
    prefix += text;
    if (!whole) return prefix;
    // Something always follows: a `**` at the end stands for one name at least.
    if (index < segments.length - 1) prefix += "/";
  }
  return prefix;
}

function commonStart(a: string, b: string): string {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  const common = a.slice(0, length);
  return common.isWellFormed() ? common : common.slice(0, -1);
}

/** Adds the place, in the text as it was written. A fault that only an alternative of the braces has is shown in that. */
function located(
  { problem, at }: GlobFault,
  { text, alternative }: { text: string; alternative?: string },
): ParsedGlob {
  if (alternative !== undefined) {
    return { ok: false, problem: `${problem} (in '/${alternative}', which its braces stand for)` };
  }
  const character = at + (text.startsWith("/") ? 2 : 1);
  return { ok: false, problem: `${problem} (at character ${character})` };
}

/**
 * Matches a name against a segment by following all ways through it at once (K. Thompson, "Regular Expression Search
 * Algorithm", 1968): the cost is at most length of name × length of segment. A backtracking engine takes minutes for
 * `*a*a*a*a*b` on a name of a few hundred letters.
 */
function segmentMatcher(pieces: readonly Piece[]): (name: string) => boolean {
  if (pieces.every(({ kind }) => kind === "star")) return () => true;
  const literal = literalStart(pieces);
  if (literal.whole) return (name) => name === literal.text;
  const start = build(pieces, ACCEPT);
  return (name) => name.startsWith(literal.text) && follow(start, [...name]);
}

/** The characters that every match begins with. `whole`: a match has no others. */
function literalStart(pieces: readonly Piece[]): { readonly text: string; readonly whole: boolean } {
  let text = "";
  for (const piece of pieces) {
    if (piece.kind !== "one" || piece.literal === undefined) return { text, whole: false };
    text += piece.literal;
  }
  return { text, whole: true };
}

type Node =
  | { readonly kind: "accept" }
  | { readonly kind: "one"; readonly test: CharacterTest; readonly next: Node }
  | { readonly kind: "fork"; readonly to: Node[] }
  /** Matches if `start` does not match the rest of the name. */
  | { readonly kind: "except"; readonly start: Node };

const ACCEPT: Node = { kind: "accept" };

function build(pieces: readonly Piece[], next: Node): Node {
  return pieces.reduceRight<Node>((after, piece) => nodeOf(piece, after), next);
}

function nodeOf(piece: Piece, next: Node): Node {
  switch (piece.kind) {
    case "one":
      return { kind: "one", test: piece.test, next };
    case "star": {
      const loop: Node = { kind: "fork", to: [next] };
      loop.to.push({ kind: "one", test: () => true, next: loop });
      return loop;
    }
    case "except":
      return { kind: "except", start: forkOf(piece.choices, ACCEPT) };
    case "group": {
      if (piece.mark === "@") return forkOf(piece.choices, next);
      if (piece.mark === "?") return { kind: "fork", to: [next, forkOf(piece.choices, next)] };
      const loop: Node = { kind: "fork", to: [next] };
      const once = forkOf(piece.choices, loop);
      loop.to.push(once);
      return piece.mark === "*" ? loop : once;
    }
  }
}

function forkOf(choices: readonly (readonly Piece[])[], next: Node): Node {
  return { kind: "fork", to: choices.map((choice) => build(choice, next)) };
}

function follow(start: Node, characters: readonly string[]): boolean {
  let here = closure([start]);
  for (const [index, character] of characters.entries()) {
    if (isExcepted(here, characters.slice(index))) return true;
    const next: Node[] = [];
    for (const node of here) if (node.kind === "one" && node.test(character)) next.push(node.next);
    if (next.length === 0) return false;
    here = closure(next);
  }
  return here.has(ACCEPT) || isExcepted(here, []);
}

/** All nodes that these reach without a character. */
function closure(nodes: readonly Node[]): Set<Node> {
  const reached = new Set(nodes);
  for (const node of reached) {
    if (node.kind === "fork") for (const to of node.to) reached.add(to);
  }
  return reached;
}

function isExcepted(here: ReadonlySet<Node>, rest: readonly string[]): boolean {
  for (const node of here) if (node.kind === "except" && !follow(node.start, rest)) return true;
  return false;
}
