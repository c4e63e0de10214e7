/** Digests by path. */
export type Tree = ReadonlyMap<string, string>;

/** What clients fill call by call before it becomes a file or a commit: a multipart upload, an open commit. */
export interface Filled {
  /** The open commit that an upload goes into. */
  readonly goesInto: string | null;
  /** Of an upload, where its object is to be, and since when it is there. */
  readonly path: string | null;
  readonly initiatedAt: number | null;
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
  /** What files have beside their bytes, as `attributesOf` says it; of a file that has none, nothing. */
  readonly attributes: ReadonlyMap<string, string>;
  /** What is filled beside the tree, by its id. */
  readonly beside: ReadonlyMap<string, Filled>;
  /** When it was written, by the clock as if it had never been set back. */
  readonly at: number;
  /** The archive that its commit came out of; absent: it was made here. */
  readonly archive?: string;
  /** Some of the commits of its generation came out of an archive, which may lack others. */
  readonly isOfArchive?: boolean;
  /** It came together with the next one: nobody ever saw it. */
  readonly isPassed?: boolean;
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
  attributes: new Map(),
  beside: new Map(),
  at: 0,
};

/** A sequence of states, in which is seen what it may have been between two moments. */
export interface Seen {
  readonly states: readonly State[];
  /** From what was there at the first moment up to what was at the second. */
  between(from: number, to: number): readonly State[];
}

/** What a file has beside its bytes, as one text: the same for the same, in whatever order it was said. */
export function attributesOf(attributes: object): string {
  const plain = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(plain);
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).filter(([, one]) => one !== undefined);
    return Object.fromEntries(
      entries.sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, one]) => [name, plain(one)]),
    );
  };
  const { tags, metadata, ...others } = attributes as {
    tags?: readonly (readonly [string, string])[];
    metadata?: object;
  };
  const some = {
    ...others,
    ...(tags && tags.length > 0 && { tags: tags.toSorted(([one], [other]) => (one < other ? -1 : 1)) }),
    ...(metadata && Object.keys(metadata).length > 0 && { metadata }),
  };
  const text = JSON.stringify(plain(some));
  return text === "{}" ? "" : text;
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
