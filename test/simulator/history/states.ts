/** Digests by path. */
export type Tree = ReadonlyMap<string, string>;

/** What clients fill call by call before it becomes a file or a commit: a multipart upload, an open commit. */
export interface Filled {
  /** The open commit that an upload goes into. */
  readonly goesInto: string | null;
  /** Lifecycle rules fill it. */
  readonly isByRule: boolean;
  /** It becomes a large commit, and takes nothing any more. */
  readonly isApplying: boolean;
  /** Of an upload the digests of parts by their numbers, of an open commit `operationText`s by their paths. */
  readonly entries: Entries;
}

export type Entries = ReadonlyMap<string, string>;

/** What a branch was from one moment on, up to the next one. */
export interface State {
  /** When it was on the disk, in the count of all that the history noted. 0: from the beginning. */
  readonly since: number;
  /** The number of the generation; null: there is no branch, or nobody sees it yet. */
  readonly generation: number | null;
  /** The commit by which it came to be; null: by none. */
  readonly commit: string | null;
  /** What was said of that commit. */
  readonly message: string | null;
  /** The job that made it. */
  readonly origin: string | null;
  readonly tree: Tree;
  /** The numbers of the commits that wrote what the tree has. */
  readonly born: ReadonlyMap<string, number>;
  /** What is filled beside the tree, by its id. */
  readonly beside: ReadonlyMap<string, Filled>;
  /** When it was written, by the clock. */
  readonly at: number;
}

/** Before there was anything. */
export const NOTHING: State = {
  since: 0,
  generation: null,
  commit: null,
  message: null,
  origin: null,
  tree: new Map(),
  born: new Map(),
  beside: new Map(),
  at: 0,
};

/** A sequence of states, in which is seen what it may have been between two moments. */
export interface Seen {
  readonly states: readonly State[];
  /** From what was there at the first moment up to what was at the second. */
  between(from: number, to: number): readonly State[];
}

/** Whether two maps have the same. */
export function isSame(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return one.size === other.size && [...one].every(([name, value]) => other.get(name) === value);
}

/** Of states in their order, those that were there at some time between two moments. */
export function statesBetween<S extends { readonly since: number }>(
  states: readonly S[],
  { from, to }: { readonly from: number; readonly to: number },
): readonly S[] {
  const first = states.findLastIndex(({ since }) => since <= from);
  const end = states.findIndex(({ since }) => since > to);
  return states.slice(Math.max(0, first), end < 0 ? undefined : end);
}
