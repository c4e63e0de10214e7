import { UsageError } from "../../output/failure.ts";

/**
 * Patterns of paths as shells have them: `*` and `?` stand for what is in one name, `**` also for `/`, and `[a-z]` for one
 * character of those.
 */

/** Whether a text has a character that means something in a pattern. A path may have them, too. */
export function hasWildcard(text: string): boolean {
  return /[*?[]/.test(text);
}

/** What every path has in front that matches a pattern. */
export function literalPrefix(pattern: string): string {
  return pattern.slice(0, pattern.search(/[*?[]/));
}

/** The parts of a pattern: `**` with or without a `/`, `*`, `?`, a set, or any one character. */
const PARTS = /\*\*\/?|\*|\?|\[[!^]?\]?[^\]/]*\]|./gsu;

/** What a whole path must match. */
export function wildcard(pattern: string): RegExp {
  try {
    return new RegExp(`^${pattern.replace(PARTS, sourceOf)}$`, "su");
  } catch {
    throw new UsageError(
      `'${pattern}' is no pattern: a set of characters, such as [a-z], goes from the lower to the higher`,
    );
  }
}

function sourceOf(part: string): string {
  if (part === "**/") return "(?:.*/)?";
  if (part === "**") return ".*";
  if (part === "*") return "[^/]*";
  if (part === "?") return "[^/]";
  const [, not, set] = /^\[([!^])?(.+)\]$/su.exec(part) ?? [];
  if (set !== undefined) return `[${not ? "^/" : ""}${set.replace(/[\\\]^[]/g, "\\$&")}]`;
  // Alone, these mean something to regular expressions.
  return part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}

/**
 * Whether a path is left out by one of these patterns: one without `/` is for the name of a file or folder at any depth, one
 * with `/` for a path from the top. What is below a folder that is left out is left out as well.
 */
export function excluder(patterns: readonly string[]): (path: string) => boolean {
  const rules = patterns.map((pattern) => {
    const trimmed = pattern.replace(/^\.?\//, "").replace(/\/$/, "");
    return { ofName: !pattern.replace(/\/$/, "").includes("/"), matches: wildcard(trimmed) };
  });
  return (path) => {
    const names = path.split("/");
    return names.some((name, index) =>
      rules.some(({ ofName, matches }) => matches.test(ofName ? name : names.slice(0, index + 1).join("/"))),
    );
  };
}
