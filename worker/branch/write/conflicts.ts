import { kindOf } from "../tree/file-store.ts";

/** What a path is checked against: HEAD, and what the commit does to it. */
export interface ConflictView {
  /** Whether a file (no directory) of this path will be there. */
  isFile(path: string): boolean;
  /** A path that will be there below a directory, given with its slash. */
  anyBelow(directory: string): string | undefined;
  /** Whether anything is below a directory at HEAD, before the commit. */
  hasBelowAtHead(directory: string): boolean;
  /** Whether the commit itself puts a file at this path. */
  puts(path: string): boolean;
}

/**
 * What is in the way of a path that a commit puts, in the commit's final state: a file where one of its directories
 * must be, or something below it where it is to be a file. `isNew`: nothing was at the path before.
 */
export function conflictOf(
  path: string,
  { view, isNew }: { view: ConflictView; isNew: boolean },
): string | undefined {
  const above = ancestorsOf(path);
  const own = above.find((ancestor) => view.puts(ancestor));
  if (own !== undefined || !isNew) return own;
  for (const ancestor of above) {
    // HEAD has no conflicts: what has something below it is a directory, and so is everything above it.
    if (view.hasBelowAtHead(`${ancestor}/`)) break;
    if (view.isFile(ancestor)) return ancestor;
  }
  return kindOf(path) === "file" ? view.anyBelow(`${path}/`) : undefined;
}

/** The directories that a path is in, without their slash, the nearest first. */
export function ancestorsOf(path: string): string[] {
  const found: string[] = [];
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    found.push(path.slice(0, slash));
  }
  return found;
}
