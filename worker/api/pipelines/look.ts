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
  /** Whether those are all. */
  readonly complete: boolean;
}

const NOTHING: Look = { commit: null, hasData: false, paths: [], complete: true };

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
export async function lookAtInput(branch: BranchApi, glob: Glob): Promise<Look> {
  const status = await branch.status();
  if (!status.ok || status.head === null) return NOTHING;
  const lister: TreeLister = { branch, commit: status.head, pages: MAX_PAGES };
  const hasData = await holdsFile(lister);
  const walked = await walk(lister, glob);
  const root = hasData && glob.matches("") ? [""] : [];
  return {
    commit: status.head,
    hasData,
    paths: [...root, ...walked.paths.sort(comparePaths)],
    complete: walked.complete,
  };
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

async function walk(lister: TreeLister, glob: Glob): Promise<{ paths: string[]; complete: boolean }> {
  const paths: string[] = [];
  const places: Place[] = glob.prefix === "" && !glob.mayMatchBelow("") ? [] : [{ prefix: glob.prefix }];
  for (let place = places.pop(); place; place = places.pop()) {
    if (lister.pages <= 0) return { paths, complete: false };
    const { entries, next } = await readPage(lister, { ...place, delimiter: "/", limit: PAGE_ENTRIES });
    // The next page comes after everything below this one: the order in which a reader of the tree expects them.
    if (next !== null) places.push({ prefix: place.prefix, after: next });
    for (const entry of entries.toReversed()) {
      const path = entry.kind === "file" ? entry.path : entry.path.slice(0, -1);
      if (entry.kind !== "dir" && glob.matches(path)) paths.push(path);
      if (entry.kind === "prefix" && glob.mayMatchBelow(path)) places.push({ prefix: entry.path });
    }
  }
  return { paths, complete: true };
}

/** A branch that is deleted meanwhile holds nothing more. */
async function readPage(
  lister: TreeLister,
  request: Place & { readonly delimiter?: "/"; readonly limit: number },
): Promise<Pick<Extract<Awaited<ReturnType<BranchApi["list"]>>, { ok: true }>, "entries" | "next">> {
  lister.pages--;
  const page = await lister.branch.list({ ...request, commit: lister.commit, anyGeneration: true });
  return page.ok ? page : { entries: [], next: null };
}

interface SpanLister extends Budget {
  readonly span: CommitPosition & { readonly since: CommitPosition };
}

/**
 * Looks at those files of a branch's newest commit that were written after another commit. It reads file by file:
 * which directories hold such files is known only once they are seen.
 */
export async function lookAfter(
  branch: BranchApi,
  { glob, from }: { glob: Glob; from: string },
): Promise<Look> {
  const status = await branch.status();
  if (!status.ok || status.head === null) return NOTHING;
  const [head, since] = await Promise.all([
    branch.position({ commit: status.head }),
    branch.position({ commit: from }),
  ]);
  if (!head || !since) return NOTHING;
  const lister: SpanLister = { branch, span: { ...head, since }, pages: MAX_PAGES };
  let hasData = false;
  // One file is enough to tell, and mostly it is the first.
  for await (const { kind } of written(lister, { prefix: "", limit: 1 })) {
    hasData = kind === "file";
    if (hasData) break;
  }
  const found = new Set<string>();
  const files = written(lister, { prefix: glob.prefix, limit: PAGE_ENTRIES });
  for (let next = await files.next(); ; next = await files.next()) {
    if (next.done) {
      const paths = [...found].sort(comparePaths);
      return { commit: status.head, hasData, paths, complete: next.value === "all" };
    }
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
