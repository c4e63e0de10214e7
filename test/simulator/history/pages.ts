/*
 * The naive rule of pages: of all that there is in order, a page has what comes after its mark, without a gap, up to its last entry;
 * what is below a folder is one entry. It may be short, but not the last one.
 */

export interface PageAsked {
  readonly prefix: string;
  readonly delimiter?: "/";
  /** A path or, with the delimiter, a folder. */
  readonly after?: string;
  readonly limit: number;
}

export interface PageRead {
  /** What is listed: paths, or folders, as they came. */
  readonly names: readonly string[];
  readonly next: string | null;
}

/** The entry that a path is listed as; undefined: in none. */
export function entryOf(path: string, { prefix, delimiter, after = "" }: PageAsked): string | undefined {
  if (!path.startsWith(prefix)) return undefined;
  const slash = delimiter ? path.indexOf("/", prefix.length) : -1;
  const name = slash < 0 ? path : path.slice(0, slash + 1);
  if (name === after) return undefined;
  // A mark that is within a folder leaves the rest of that to come.
  return path > after ? name : undefined;
}

/** All entries of some paths, in order. */
export function entriesOf(paths: Iterable<string>, asked: PageAsked): string[] {
  const names = [...paths].flatMap((path) => entryOf(path, asked) ?? []);
  return [...new Set(names)].sort(byBytes);
}

/** Whether a page is what it should be of all these paths. */
export function isPageOf(paths: Iterable<string>, asked: PageAsked, { names, next }: PageRead): boolean {
  const all = entriesOf(paths, asked);
  const isRun = names.every((name, index) => name === all[index]) && names.length <= asked.limit;
  return (
    isRun &&
    (next === null ? names.length === all.length : names.length < all.length || next !== names.at(-1))
  );
}

export function byBytes(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
