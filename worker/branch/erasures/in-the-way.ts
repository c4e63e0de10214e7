import type { Tx } from "../../objects/transaction.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { ancestorsOf } from "../staging/plan.ts";
import { kindOf } from "../tree/file-store.ts";

/**
 * Which of some paths, at which HEAD has nothing, can't have a file or an empty directory again: a file is at the place of one
 * of its directories, or something is below the path of a file. The same that a put is refused for (staging/plan.ts), asked for
 * all paths at once: one statement for each level of directories that has to be looked at, mostly one.
 */
export function blockedAtHead(
  _: Tx,
  { files }: Pick<Ledger, "files">,
  { gen, paths }: { gen: number; paths: readonly string[] },
): ReadonlySet<string> {
  const placed = paths.filter((path) => kindOf(path) === "file");
  const below = files.standing(gen, placed);
  const blocked = new Set(placed.filter((path) => below.get(path)?.hasBelow));
  let looking = paths.flatMap((path) => aboveOf(path));
  while (looking.length > 0) {
    const there = files.standing(gen, [...new Set(looking.map(({ directory }) => directory))]);
    looking = looking.flatMap(({ path, directory }) => {
      const { isFile, hasBelow } = there.get(directory) ?? {};
      // HEAD has no conflicts: what has something below it is a directory, and so is everything above it.
      if (hasBelow) return [];
      if (!isFile) return aboveOf(path, directory);
      blocked.add(path);
      return [];
    });
  }
  return blocked;
}

/**
 * Of paths that are to be at HEAD all at once, those that can be: of two that are in each other's way, the one above is. They
 * come in the order of paths, so what is above comes first.
 */
export function withoutConflicts<Row extends { readonly path: string }>(rows: readonly Row[]): Row[] {
  const taken = new Set<string>();
  return rows.filter(({ path }) => {
    if (ancestorsOf(path).some((directory) => taken.has(directory))) return false;
    taken.add(path);
    return true;
  });
}

interface Above {
  readonly path: string;
  /** Without its slash. */
  readonly directory: string;
}

/** The directory that a path is in, or the next one above the one that is given; nothing at the root. */
function aboveOf(path: string, directory = path): Above[] {
  const slash = directory.lastIndexOf("/");
  return slash > 0 ? [{ path, directory: directory.slice(0, slash) }] : [];
}
