import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import { pathFault } from "../../../protocol/paths.ts";
import type { CommitRefused, Operation } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { attributesText } from "../tree/attributes.ts";
import { type Around, EMPTY_DIGEST, type FileState, type HeadRow, kindOf } from "../tree/file-store.ts";
import { directoryOf } from "../tree/path-ranges.ts";
import { type ConflictView, conflictOf } from "./conflicts.ts";

/** The final state of each path that a commit names: null where it is to be gone. */
export type FinalState = ReadonlyMap<string, FileState | null>;

/** A path that is really changed. */
export interface PlannedChange {
  readonly path: string;
  readonly before: HeadRow | undefined;
  readonly now: FileState | null;
}

/** Why no tree can hold what these operations put, or there are too many of them; undefined where it can. */
export function pathRefusal(operations: readonly Operation[]): CommitRefused | undefined {
  if (operations.length > MAX_COMMIT_OPERATIONS) return { ok: false, reason: "too-many-operations" };
  for (const operation of operations) {
    const path = "put" in operation ? operation.put : operation.delete;
    const fault = pathFault(path) ?? bytesFault(path, operation);
    if (fault) return { ok: false, reason: "bad-path", path, fault };
  }
  return undefined;
}

/** One operation per path: the last one wins (design §3). */
export function finalState(operations: readonly Operation[]): FinalState {
  const state = new Map<string, FileState | null>();
  for (const operation of operations) {
    if ("put" in operation) state.set(operation.put, stateOf(operation.put, operation));
    else state.set(operation.delete, null);
  }
  return state;
}

/** What a commit would change at HEAD, or why it can't. Writes nothing. `contentComes`: its bytes are brought along, not in the branch yet. */
export function planCommit(
  ledger: Ledger,
  { gen, state, contentComes }: { gen: number; state: FinalState; contentComes: "with-it" | "before" },
): { ok: true; changes: readonly PlannedChange[] } | CommitRefused {
  const changes: PlannedChange[] = [];
  for (const [path, now] of state) {
    if (!now) {
      const before = ledger.files.head(gen, path);
      if (before) changes.push({ path, before, now });
      continue;
    }
    const around = ledger.files.around(gen, path);
    const { before } = around;
    if (contentComes === "before" && lacksContent(ledger, { gen, path, now })) {
      return { ok: false, reason: "no-such-content", path };
    }
    const other = conflictOf(path, { view: viewOf(ledger, { gen, state, around }), isNew: !before });
    if (other !== undefined) return { ok: false, reason: "path-conflict", path, other };
    if (!isSame(before, now)) changes.push({ path, before, now });
  }
  return { ok: true, changes };
}

/** The final state of a file or empty directory that is put. */
function stateOf(
  path: string,
  { digest, size, attributes = {} }: Omit<Extract<Operation, { put: string }>, "put">,
): FileState {
  return {
    digest: kindOf(path) === "dir" ? EMPTY_DIGEST : digest,
    size,
    attributes: attributesText(attributes),
  };
}

function bytesFault(path: string, operation: Operation): "directory-with-bytes" | undefined {
  const hasBytes = "put" in operation && operation.size > 0;
  return hasBytes && kindOf(path) === "dir" ? "directory-with-bytes" : undefined;
}

function lacksContent(
  ledger: Ledger,
  { gen, path, now }: { gen: number; path: string; now: FileState },
): boolean {
  return kindOf(path) === "file" && !ledger.contents.has({ ...now, gen });
}

function isSame(before: FileState | undefined, now: FileState): boolean {
  return before?.digest === now.digest && before.size === now.size && before.attributes === now.attributes;
}

function viewOf(
  ledger: Ledger,
  { gen, state, around }: { gen: number; state: FinalState; around: Around },
): ConflictView {
  const { files } = ledger;
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
