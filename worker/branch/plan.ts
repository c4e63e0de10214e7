import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { pathFault } from "../../protocol/paths.ts";
import { type ConflictView, conflictOf } from "./conflicts.ts";
import type { CommitRefused, Operation } from "./contract.ts";
import { attributesText, EMPTY_DIGEST, type FileState, type HeadRow, kindOf } from "./files.ts";
import type { Ledger } from "./ledger.ts";

/** The final state of each path that a commit names: null where it is to be gone. */
type FinalState = ReadonlyMap<string, FileState | null>;

/** A path that is really changed. */
export interface PlannedChange {
  readonly path: string;
  readonly before: HeadRow | undefined;
  readonly now: FileState | null;
}

/** One operation per path: the last one wins (design §3). Refuses what no tree can hold. */
export function reduceOperations(
  operations: readonly Operation[],
): { ok: true; state: FinalState } | CommitRefused {
  if (operations.length > MAX_COMMIT_OPERATIONS) return { ok: false, reason: "too-many-operations" };
  const state = new Map<string, FileState | null>();
  for (const operation of operations) {
    const path = "put" in operation ? operation.put : operation.delete;
    const fault = pathFault(path) ?? bytesFault(path, operation);
    if (fault) return { ok: false, reason: "bad-path", path, fault };
    state.set(path, "put" in operation ? stateOf(path, operation) : null);
  }
  return { ok: true, state };
}

/** What a commit would change at HEAD, or why it can't. Writes nothing. `contentComes`: its bytes are brought along, not in the branch yet. */
export function planCommit(
  ledger: Ledger,
  { gen, state, contentComes }: { gen: number; state: FinalState; contentComes: "with-it" | "before" },
): { ok: true; changes: readonly PlannedChange[] } | CommitRefused {
  const changes: PlannedChange[] = [];
  const view = viewOf(ledger, { gen, state });
  for (const [path, now] of state) {
    const before = ledger.files.head(gen, path);
    if (now && contentComes === "before" && lacksContent(ledger, { gen, path, now })) {
      return { ok: false, reason: "no-such-content", path };
    }
    const other = now ? conflictOf(path, { view, isNew: before === undefined }) : undefined;
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

function isSame(before: FileState | undefined, now: FileState | null): boolean {
  if (!before || !now) return !before && !now;
  return before.digest === now.digest && before.size === now.size && before.attributes === now.attributes;
}

function viewOf(ledger: Ledger, { gen, state }: { gen: number; state: FinalState }): ConflictView {
  const { files } = ledger;
  return {
    puts: (path) => Boolean(state.get(path)),
    isFile: (path) => state.get(path) !== null && files.head(gen, path) !== undefined,
    hasBelowAtHead: (directory) => files.firstBelow(gen, { directory }) !== undefined,
    anyBelow(directory) {
      let found = files.firstBelow(gen, { directory });
      while (found !== undefined && state.get(found) === null) {
        found = files.firstBelow(gen, { directory, after: found });
      }
      return found;
    },
  };
}
