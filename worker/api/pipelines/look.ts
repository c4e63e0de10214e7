import type { ContentId } from "../../../protocol/content.ts";
import type { FileEntry } from "../../../protocol/files.ts";
import type { BranchApi, CommitPosition } from "../../branch/contract.ts";
import { ancestors, type Glob } from "../../core/glob.ts";
import { comparePaths } from "../../core/path-order.ts";

/** One look reads at most so many pages, of so many entries each: its cost has a bound, however large the branch is. */
const MAX_PAGES = 16;
const PAGE_ENTRIES = 1000;

/** What a branch holds for an input now. */
export interface Look {
  /** The newest commit; null if there is none. */
  readonly commit: string | null;
  /** Whether there is a file. */
  readonly hasData: boolean;
  /** Files and directories that the glob matches, in order of their paths; "" is the root. */
  readonly paths: readonly string[];
  /** What is in those of them that are files. */
  readonly files: ReadonlyMap<string, ContentId>;
  /** Where the branch was looked at, and since when; null if it has no commit. */
  readonly at: (CommitPosition & { readonly since?: CommitPosition }) | null;
  /** Whether those are all. */
  readonly complete: boolean;
}

/** How often a look begins anew. */
const TRIES = 5;

const NOTHING: Look = {
  ...{ commit: null, hasData: false, paths: [], files: new Map(), at: null, complete: true },
};

/** Counts the pages down that a look may still read. */
interface Budget {
  readonly branch: BranchApi;
  pages: number;
}

interface TreeLister extends Budget {
  readonly commit: string;
}

interface Place {
  readonly prefix: string;
  readonly after?: string;
}

/**
 * Looks at the newest commit of a branch, directory by directory. It enters only directories that may hold a match: a
 * directory with a million files costs one line if the glob matches it as a whole.
 */
export function lookAtInput(branch: BranchApi, glob: Glob): Promise<Look> {
  return lookAtNewest(branch, async (commit) => {
    const lister: TreeLister = { branch, commit, pages: MAX_PAGES };
    const hasData = await holdsFile(lister);
    const walked = await walk(lister, glob);
    const root = hasData && glob.matches("") ? [""] : [];
    return {
      commit,
      hasData,
      paths: [...root, ...walked.paths.sort(comparePaths)],
      files: walked.files,
      at: await branch.position({ commit }),
      complete: walked.complete,
    };
  });
}

/**
 * Looks at the newest commit. A branch that keeps few may have given that back before the last page is read, or the one that the
 * look begins after: then there is a newer one to look at.
 */
async function lookAtNewest(
  branch: BranchApi,
  look: (commit: string) => Promise<Look>,
  { from }: { from?: string } = {},
): Promise<Look> {
  for (let tries = 1; ; tries++) {
    const status = await branch.status();
    if (!status.ok || status.head === null) return NOTHING;
    try {
      return await look(status.head);
    } catch (error) {
      const read = [status.head, ...(from === undefined ? [] : [from])];
      const places = await Promise.all(read.map((commit) => branch.position({ commit })));
      if (tries === TRIES || !places.includes(null)) throw error;
    }
  }
}

/** Empty directories do not count. A first file behind many thousands of them is not seen. */
async function holdsFile(lister: TreeLister): Promise<boolean> {
  let place: Place | undefined = { prefix: "" };
  while (place && lister.pages > 0) {
    const page = await readPage(lister, { ...place, limit: lister.pages === MAX_PAGES ? 1 : PAGE_ENTRIES });
    if (page.entries.some(({ kind }) => kind === "file")) return true;
    place = page.next === null ? undefined : { prefix: "", after: page.next };
  }
  return false;
}

type ListEntry = Awaited<ReturnType<typeof readPage>>["entries"][number];

interface Walked {
  readonly paths: string[];
  readonly files: Map<string, ContentId>;
  readonly complete: boolean;
}

async function walk(lister: TreeLister, glob: Glob): Promise<Walked> {
  const paths: string[] = [];
  const files = new Map<string, ContentId>();
  const places = placesOf(glob);
  for (let place = places.pop(); place; place = places.pop()) {
    if (lister.pages <= 0) return { paths, files, complete: false };
    const { entries, next } = await readPage(lister, { ...place, delimiter: "/", limit: PAGE_ENTRIES });
    // The next page comes after everything below this one: the order in which a reader of the tree expects them.
    if (next !== null) places.push({ prefix: place.prefix, after: next });
    for (const entry of entries.toReversed()) {
      const path = entry.kind === "file" ? entry.path : entry.path.slice(0, -1);
      const isMatch = entry.kind !== "dir" && glob.matches(path);
      if (isMatch) {
        paths.push(path);
        addFile(files, path, entry);
      }
      if (entry.kind === "prefix" && glob.mayMatchBelow(path)) places.push({ prefix: entry.path });
    }
  }
  return { paths, files, complete: true };
}

/** A directory has no content of its own. */
function addFile(files: Map<string, ContentId>, path: string, entry: ListEntry): void {
  if (entry.kind === "file") files.set(path, { digest: entry.digest, size: entry.size });
}

/** Where a walk begins: nowhere, if the glob can match the root alone. */
function placesOf(glob: Glob): Place[] {
  return glob.prefix === "" && !glob.mayMatchBelow("") ? [] : [{ prefix: glob.prefix }];
}

/** A branch that is deleted meanwhile holds nothing more. Throws if the commit is not there any more. */
async function readPage(
  lister: TreeLister,
  request: Place & { readonly delimiter?: "/"; readonly limit: number },
): Promise<Pick<Extract<Awaited<ReturnType<BranchApi["list"]>>, { ok: true }>, "entries" | "next">> {
  lister.pages--;
  const page = await lister.branch.list({ ...request, commit: lister.commit, anyGeneration: true });
  if (page.ok) return page;
  if (page.reason === "no-such-branch") return { entries: [], next: null };
  throw new Error(`the commit ${lister.commit} could not be read: ${page.reason}`);
}

interface SpanLister extends Budget {
  readonly span: CommitPosition & { readonly since: CommitPosition };
}

/**
 * Looks at those files of a branch's newest commit that were written after another commit. It reads file by file:
 * which directories hold such files is known only once they are seen.
 */
export function lookAfter(branch: BranchApi, { glob, from }: { glob: Glob; from: string }): Promise<Look> {
  const look = (commit: string): Promise<Look> => lookBetween(branch, { glob, from, commit });
  return lookAtNewest(branch, look, { from });
}

async function lookBetween(
  branch: BranchApi,
  { glob, from, commit }: { glob: Glob; from: string; commit: string },
): Promise<Look> {
  const [head, since] = await Promise.all([branch.position({ commit }), branch.position({ commit: from })]);
  if (!since) return NOTHING;
  if (!head) throw new Error(`the commit ${commit} is not there any more`);
  const lister: SpanLister = { branch, span: { ...head, since }, pages: MAX_PAGES };
  let hasData = false;
  // One file is enough to tell, and mostly it is the first.
  for await (const { kind } of written(lister, { prefix: "", limit: 1 })) {
    hasData = kind === "file";
    if (hasData) break;
  }
  const found = new Set<string>();
  const contents = new Map<string, ContentId>();
  const files = written(lister, { prefix: glob.prefix, limit: PAGE_ENTRIES });
  for (let next = await files.next(); ; next = await files.next()) {
    if (next.done) {
      const paths = [...found].sort(comparePaths);
      const complete = next.value === "all";
      return { commit, hasData, paths, files: contents, at: lister.span, complete };
    }
    const { kind, path, digest, size } = next.value;
    if (kind === "file" && glob.matches(path)) contents.set(path, { digest, size });
    for (const match of matchesOf(glob, next.value.path)) found.add(match);
  }
}

/** Files in order of their paths, until all were there or the budget is used up. */
async function* written(
  lister: SpanLister,
  { prefix, limit }: { prefix: string; limit: number },
): AsyncGenerator<FileEntry, "all" | "more"> {
  let after: string | null = "";
  while (after !== null && lister.pages > 0) {
    lister.pages--;
    const page: Awaited<ReturnType<BranchApi["filesAt"]>> = await lister.branch.filesAt({
      ...lister.span,
      prefix,
      after,
      limit,
    });
    yield* page.files;
    after = page.next;
  }
  return after === null ? "all" : "more";
}

/** What the glob matches of a path and the directories above it; an empty directory, "a/b/", counts for those above. */
function matchesOf(glob: Glob, path: string): string[] {
  const own = path.endsWith("/") ? path.slice(0, -1) : path;
  return [...ancestors(path), own].filter((candidate) => glob.matches(candidate));
}
