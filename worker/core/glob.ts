import picomatch from "picomatch/posix.js";
import { expandBraces } from "./braces.ts";
import { splitSegments } from "./glob-segments.ts";

/**
 * Which files and directories of an input are datums (spec §2.6). A glob is applied to the root of the repo: `/`
 * is the root itself, `/*` every entry directly under it. Within a segment: `*`, `?`, `[a-z]`, `[!a-z]`,
 * `[[:digit:]]`, `@(a|b)`, `!(a)`, `+(a)`, `*(a)`, `?(a)`; braces `{a,b}` may span segments; `\` takes the next
 * character as it is. Nothing within a segment matches `/`. A segment `**` stands for any number of segments; at the
 * end for at least one, so that `/a/**` is what lies in `/a` and not `/a` itself. Dot files match like any other.
 */
export interface Glob {
  /** As it is kept and shown: with a leading slash, without a trailing one. */
  readonly text: string;
  /** Whether a path belongs to the glob: no leading or trailing slash, "" for the root. */
  matches(path: string): boolean;
}

export type ParsedGlob = { ok: true; glob: Glob } | { ok: false; problem: string };

/** Most patterns that braces may stand for. */
const MAX_ALTERNATIVES = 256;
const MAX_GLOB_CHARACTERS = 1024;
const ROOT = "/";

type Segment = "**" | ((name: string) => boolean);

/** Leading slash added, trailing ones removed: "" and "/" are both the root, "*" is "/*". */
export function normaliseGlob(text: string): string {
  return `/${text.replace(/^\/|(?<!\\)\/$/g, "")}`;
}

/** Reads a glob; a bad one answers what is wrong with it, in words for the writer of the spec. */
export function parseGlob(text: string): ParsedGlob {
  const normal = normaliseGlob(text);
  if (normal === ROOT) return { ok: true, glob: { text: ROOT, matches: (path) => path === "" } };
  if (normal.length > MAX_GLOB_CHARACTERS) return bad(`is longer than ${MAX_GLOB_CHARACTERS} characters`);
  const expanded = expandBraces(normal.slice(1), MAX_ALTERNATIVES);
  if (!expanded.ok) return expanded;
  const patterns: Segment[][] = [];
  for (const pattern of expanded.patterns) {
    const parsed = parsePattern(pattern);
    if (!parsed.ok) return parsed;
    patterns.push(parsed.segments);
  }
  const matches = (path: string): boolean => {
    if (path === "") return false;
    const names = path.split("/");
    return patterns.some((segments) => matchSegments(segments, names));
  };
  return { ok: true, glob: { text: normal, matches } };
}

/** The directories above a path, from the root down: "a/b/c" gives "", "a", "a/b"; the empty directory "a/b/" too. */
export function ancestors(path: string): string[] {
  const above = [""];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) above.push(path.slice(0, at));
  return path.endsWith("/") ? above.slice(0, -1) : above;
}

type ParsedPattern = { ok: true; segments: Segment[] } | { ok: false; problem: string };

function parsePattern(pattern: string): ParsedPattern {
  const split = splitSegments(pattern);
  if (!split.ok) return split;
  const segments: Segment[] = [];
  for (const text of split.segments) {
    if (text === "") return bad("has an empty segment: '//' matches nothing");
    if (text === "." || text === "..") return bad(`has the segment '${text}', which no path has`);
    if (text === "**") segments.push("**");
    else segments.push(segmentMatcher(text));
  }
  // What is in a directory, not the directory itself: one segment at least.
  if (segments.at(-1) === "**") segments.push(() => true);
  return { ok: true, segments };
}

function segmentMatcher(text: string): Segment {
  const expression = picomatch.makeRe(text, {
    dot: true,
    nobrace: true,
    noglobstar: true,
    nonegate: true,
    posix: true,
    strictSlashes: true,
  });
  return (name) => expression.test(name);
}

/** The usual wildcard walk, a segment at a time: on a mismatch the last `**` takes one more name. */
function matchSegments(segments: readonly Segment[], names: readonly string[]): boolean {
  let segment = 0;
  let name = 0;
  let star = -1;
  let resume = 0;
  while (name < names.length) {
    const wanted = segments[segment];
    if (wanted === "**") {
      star = segment++;
      resume = name;
    } else if (wanted?.(names[name] as string)) {
      segment++;
      name++;
    } else if (star !== -1) {
      segment = star + 1;
      name = ++resume;
    } else return false;
  }
  while (segments[segment] === "**") segment++;
  return segment === segments.length;
}

function bad(problem: string): { ok: false; problem: string } {
  return { ok: false, problem };
}
