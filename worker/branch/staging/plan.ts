import { EMPTY_DIGEST } from "../../../protocol/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { CommitRefused, Operation } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { attributesText } from "../tree/attributes.ts";
import { type Around, type FileState, type HeadRow, kindOf } from "../tree/file-store.ts";
import { directoryOf } from "../tree/path-ranges.ts";

/** The final state of each path that a commit names; null if it is to be gone. */
export type FinalState = ReadonlyMap<string, FileState | null>;

/** A path that is really changed. */
export interface PlannedChange {
  readonly path: string;
  readonly before: HeadRow | undefined;
  readonly now: FileState | null;
}

interface Plan {
  readonly gen: number;
  readonly state: FinalState;
  /**
   * `look-up`: refuses what is put without its content in the branch. `known`: nothing is looked up, since the content
   * comes with the put, or staging has kept it.
   */
  readonly contents: "look-up" | "known";
}

/** One operation per path: the last one wins. */
export function finalState(operations: readonly Operation[]): FinalState {
  const state = new Map<string, FileState | null>();
  for (const operation of operations) {
    if ("put" in operation) state.set(operation.put, stateOf(operation.put, operation));
    else state.set(operation.delete, null);
  }
  return state;
}

/** What a commit would change at HEAD, or why it can't. Writes nothing; holds only within its transaction. */
export function planCommit(
  _: Tx,
  { files, contents: stored }: Ledger,
  { gen, state, contents }: Plan,
): { ok: true; changes: readonly PlannedChange[] } | CommitRefused {
  const changes: PlannedChange[] = [];
  for (const [path, now] of state) {
    if (!now) {
      const before = files.head(gen, path);
      if (before) changes.push({ path, before, now });
      continue;
    }
    const around = files.around(gen, path);
    const { before } = around;
    if (contents === "look-up" && kindOf(path) === "file" && !stored.has({ ...now, gen })) {
      return { ok: false, reason: "no-such-content", path };
    }
    const other = conflictOf(path, { view: viewOf(files, { gen, state, around }), isNew: !before });
    if (other !== undefined) return { ok: false, reason: "path-conflict", path, other };
    if (!isSame(before, now)) changes.push({ path, before, now });
  }
  return { ok: true, changes };
}

/** The directories that a path is in, without their slash, the nearest first. */
export function ancestorsOf(path: string): string[] {
  const found: string[] = [];
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    found.push(path.slice(0, slash));
  }
  return found;
}

/** The final state of a file or empty directory that is put. */
export function stateOf(
  path: string,
  { digest, size, attributes = {} }: Omit<Extract<Operation, { put: string }>, "put">,
): FileState {
  return {
    digest: kindOf(path) === "dir" ? EMPTY_DIGEST : digest,
    size,
    attributes: attributesText(attributes),
  };
}

function isSame(before: FileState | undefined, now: FileState): boolean {
  return before?.digest === now.digest && before.size === now.size && before.attributes === now.attributes;
}

/** What a path is checked against: HEAD, and what the commit does to it. */
interface ConflictView {
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
 * What is in the way of a path that a commit puts, in the commit's final state: a file at the place of one of its
 * directories, or something below it if it is to be a file. `isNew`: nothing was at the path before.
 */
function conflictOf(
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

function viewOf(
  files: Ledger["files"],
  { gen, state, around }: { gen: number; state: FinalState; around: Around },
): ConflictView {
  const own = directoryOf(around.path);
  return {
    puts: (path) => Boolean(state.get(path)),
    isFile: (path) => state.get(path) !== null && files.head(gen, path) !== undefined,
    hasBelowAtHead: (directory) =>
      directory === own ? around.hasSiblings : files.firstBelow(gen, { directory }) !== undefined,
    anyBelow(directory) {
      if (!around.hasBelow) return undefined;
      let found = files.firstBelow(gen, { directory });
      while (found !== undefined && state.get(found) === null) {
        found = files.firstBelow(gen, { directory, after: found });
      }
      return found;
    },
  };
}
