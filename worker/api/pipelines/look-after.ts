import type { FileEntry } from "../../../protocol/files.ts";
import type { BranchApi, CommitPosition } from "../../branch/contract.ts";
import { ancestors, type Glob } from "../../core/glob.ts";
import { comparePaths } from "../../core/path-order.ts";
import { type Look, MAX_PAGES, NOTHING, PAGE_ENTRIES } from "./look-at-input.ts";

/**
 * Looks at what of the newest commit of a branch was written after another commit, file by file: which directories
 * hold such files is not known before they are seen.
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
  const lister: Lister = { branch, span: { ...head, since }, pages: MAX_PAGES };
  let hasData = false;
  // One file tells, and is mostly the first.
  for await (const { kind } of written(lister, { prefix: "", limit: 1 })) {
    hasData = kind === "file";
    if (hasData) break;
  }
  const found = new Set<string>();
  const walk = written(lister, { prefix: glob.prefix, limit: PAGE_ENTRIES });
  for (let next = await walk.next(); ; next = await walk.next()) {
    if (next.done) {
      const paths = [...found].sort(comparePaths);
      return { commit: status.head, hasData, paths, complete: next.value === "all" };
    }
    for (const match of matchesOf(glob, next.value.path)) found.add(match);
  }
}

interface Lister {
  readonly branch: BranchApi;
  readonly span: CommitPosition & { readonly since: CommitPosition };
  /** That may be read yet. */
  pages: number;
}

/** Files in order of their paths, until all were there or the lister has read its pages. */
async function* written(
  lister: Lister,
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
