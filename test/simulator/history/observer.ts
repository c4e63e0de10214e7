import type { SimulatedObject } from "../platform/objects.ts";

/** Digests by path. */
export type Tree = ReadonlyMap<string, string>;

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
}

const NOTHING: State = {
  since: 0,
  generation: null,
  commit: null,
  message: null,
  origin: null,
  tree: new Map(),
};

interface CommitRow {
  readonly seq: number;
  readonly id: string;
  readonly annotation: string | null;
  readonly origin: string | null;
}

/** One whose rows are still being copied is seen by nobody. */
const GENERATIONS = `
  SELECT gen, deletedAt FROM generations
  WHERE gen >= ? AND NOT EXISTS (SELECT 1 FROM forks WHERE forks.gen = generations.gen AND state < 2) ORDER BY gen`;
const NEW_COMMITS = `
  SELECT seq, id, annotation, origin FROM commits WHERE gen = ? AND seq > ? AND kind = 0 ORDER BY seq`;

interface GenerationRow {
  readonly gen: number;
  readonly deletedAt: number | null;
}

/**
 * Everything that a branch ever was, as its disk had it: it looks after each transaction, so what goes later by retention or by an
 * erasure was seen before. All of it is one sequence, which is what clients are compared with.
 */
export class BranchObserver {
  readonly states: State[] = [NOTHING];
  readonly #object: SimulatedObject;
  readonly #stamp: () => number;
  /** The newest generation that was seen, and its newest commit. */
  #newest = 0;
  #seq = 0;
  /** As they were when the disk had all. */
  #kept = { newest: 0, seq: 0 };
  /** What is not on the disk yet. */
  #written: State[] = [];

  constructor(object: SimulatedObject, stamp: () => number) {
    this.#object = object;
    this.#stamp = stamp;
    object.storage.watch({
      wrote: () => this.#look(),
      flushed: () => this.#keep(),
      lost: () => this.#forget(),
    });
  }

  get last(): State {
    return this.states.at(-1) ?? NOTHING;
  }

  /** What it may have been between two moments: from what was on the disk at the first up to what was at the second. */
  between(from: number, to: number): readonly State[] {
    return statesBetween(this.states, { from, to });
  }

  #keep(): void {
    for (const state of this.#written) this.states.push({ ...state, since: this.#stamp() });
    this.#written = [];
    this.#kept = { newest: this.#newest, seq: this.#seq };
  }

  #forget(): void {
    this.#written = [];
    ({ newest: this.#newest, seq: this.#seq } = this.#kept);
  }

  #look(): void {
    const { storage } = this.#object;
    // One that came and went between two looks was there, too.
    for (const { gen, deletedAt } of storage.read<GenerationRow>(GENERATIONS, this.#newest)) {
      if (gen > this.#newest) this.#begin(gen);
      for (const commit of storage.read<CommitRow>(NEW_COMMITS, gen, this.#seq)) this.#commit(gen, commit);
      if (deletedAt !== null && (this.#written.at(-1) ?? this.last).generation !== null) this.#add(NOTHING);
    }
  }

  #begin(generation: number): void {
    this.#newest = generation;
    this.#seq = 0;
    this.#add({ ...NOTHING, generation });
  }

  #commit(generation: number, { seq, id, annotation, origin }: CommitRow): void {
    this.#seq = seq;
    const message = annotation === null ? null : ((JSON.parse(annotation).message as string) ?? null);
    this.#add({ generation, commit: id, message, origin, tree: this.#tree(generation, seq) });
  }

  #add(state: Omit<State, "since">): void {
    this.#written.push({ ...state, since: 0 });
  }

  #tree(generation: number, seq: number): Tree {
    const rows = this.#object.storage.read<{ path: string; digest: Uint8Array }>(
      `SELECT path, digest FROM files
       WHERE gen = ?1 AND kind < 2 AND born <= ?2 AND (died IS NULL OR died > ?2)`,
      generation,
      seq,
    );
    return new Map(rows.map(({ path, digest }) => [path, Buffer.from(digest).toString("hex")]));
  }
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
