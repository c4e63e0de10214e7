/*
 * The naive rule of pages: of all that there is in order, a page has what comes after its mark, without a gap, up to its last entry;
 * what is below a folder is one entry. It may be short, or have nothing, but not the last one; each goes on behind the one before.
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
  const there = [...paths];
  const all = entriesOf(there, asked);
  const isRun = names.every((name, index) => name === all[index]) && names.length <= asked.limit;
  const rest = all.slice(names.length);
  if (next === null) return isRun && rest.length === 0;
  // What is not on it is on those that come.
  const later = new Set(entriesOf(there, { ...asked, after: next }));
  const { delimiter, after = "" } = asked;
  // The rest of a folder is that folder, which stands before the mark within it.
  const goesOn = next > after || (delimiter && next !== after && after.startsWith(next));
  return isRun && Boolean(goesOn) && rest.every((name) => later.has(name));
}

/** All that there is, asked for without a folder. */
export const ALL: PageAsked = { prefix: "", limit: 1000 };

interface Listed {
  readonly entries: readonly { readonly kind: string; readonly path: string; readonly digest?: string }[];
  readonly next: string | null;
}

/** Whether a listing of all is that of a tree, or a first page of it. */
export function isListingOf(tree: ReadonlyMap<string, string>, { entries, next }: Listed): boolean {
  const isThere = ({ path, digest }: Listed["entries"][number]) => tree.get(path) === digest;
  const read = { names: entries.map(({ path }) => path), next };
  return entries.every(isThere) && isPageOf(tree.keys(), ALL, read);
}

/** All pages of a listing, as one; or the first refusal. */
export async function wholeListing<R extends Refusal>(
  list: (page: { readonly after?: string }) => Promise<({ readonly ok: true } & Listed) | R>,
): Promise<({ readonly ok: true } & Listed) | R> {
  const entries: Listed["entries"][number][] = [];
  for (let after: string | undefined; ; ) {
    const page = await list(after === undefined ? {} : { after });
    if (!page.ok) return page;
    entries.push(...page.entries);
    if (page.next === null) return { ...page, entries };
    after = page.next;
  }
}

interface Refusal {
  readonly ok: false;
  readonly reason: string;
}

export function byBytes(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
