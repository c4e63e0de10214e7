import type { BranchApi } from "../../branch/contract.ts";
import type { Glob } from "../../core/glob.ts";
import { comparePaths } from "../../core/path-order.ts";

/** Pages of a listing that one look reads, and entries in each: so much it costs, however large the branch is. */
export const MAX_PAGES = 16;
export const PAGE_ENTRIES = 1000;

/** What a branch holds for an input now. */
export interface Look {
  /** The newest commit; null where there is none. */
  readonly commit: string | null;
  /** Whether there is a file. */
  readonly hasData: boolean;
  /** Files and directories that the glob matches, in order of their paths; "" is the root. */
  readonly paths: readonly string[];
  /** Whether those are all. */
  readonly complete: boolean;
}

export const NOTHING: Look = { commit: null, hasData: false, paths: [], complete: true };

/**
 * Looks at the newest commit of a branch, directory by directory, into those alone that may hold a match: a directory
 * with a million files costs no more than its own line where the glob matches it whole.
 */
export async function lookAtInput(branch: BranchApi, glob: Glob): Promise<Look> {
  const status = await branch.status();
  if (!status.ok || status.head === null) return NOTHING;
  const lister: Lister = { branch, commit: status.head, pages: MAX_PAGES };
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

/** Reads pages until its budget is used up. */
interface Lister {
  readonly branch: BranchApi;
  readonly commit: string;
  pages: number;
}

interface Place {
  readonly prefix: string;
  readonly after?: string;
}

/** Empty directories are none; where there are many thousands of them and the first file lies behind, none is seen. */
async function holdsFile(lister: Lister): Promise<boolean> {
  let place: Place | undefined = { prefix: "" };
  while (place && lister.pages > 0) {
    const page = await readPage(lister, { ...place, limit: lister.pages === MAX_PAGES ? 1 : PAGE_ENTRIES });
    if (page.entries.some(({ kind }) => kind === "file")) return true;
    place = page.next === null ? undefined : { prefix: "", after: page.next };
  }
  return false;
}

async function walk(lister: Lister, glob: Glob): Promise<{ paths: string[]; complete: boolean }> {
  const paths: string[] = [];
  const places: Place[] = glob.prefix === "" && !glob.mayMatchBelow("") ? [] : [{ prefix: glob.prefix }];
  for (let place = places.pop(); place; place = places.pop()) {
    if (lister.pages <= 0) return { paths, complete: false };
    const { entries, next } = await readPage(lister, { ...place, delimiter: "/", limit: PAGE_ENTRIES });
    // Behind what lies below this page: the order in which a reader of the tree expects them.
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
  lister: Lister,
  request: Place & { readonly delimiter?: "/"; readonly limit: number },
): Promise<Pick<Extract<Awaited<ReturnType<BranchApi["list"]>>, { ok: true }>, "entries" | "next">> {
  lister.pages--;
  const page = await lister.branch.list({ ...request, commit: lister.commit, anyGeneration: true });
  return page.ok ? page : { entries: [], next: null };
}
