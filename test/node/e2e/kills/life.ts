import type { Change } from "../../../simulator/history/model.ts";
import { NOTHING, type State, type Tree } from "../../../simulator/history/states.ts";

/** What is erased is below it, and its names are no part of trees: an erasure takes them out of the past, too. */
export const ERASED_FOLDER = "gone/";

/** Something that is asked of a branch. */
export interface Asked {
  /** What is said of the commit that comes of it. */
  readonly id: string;
  readonly text: string;
  /** Whether it may lead from one state of the branch to the next. Absent: it makes no commit. */
  readonly leads?: (change: Change) => boolean;
  /** The gateway goes on with it by itself: if no answer came, its commit may come after a restart. */
  readonly isLong?: boolean;
}

/** What a client was told. */
export type Told =
  | { readonly kind: "unknown" }
  /** The version that the answer names; null: it names none, as nothing had to be changed. */
  | { readonly kind: "wrote"; readonly version: string | null }
  | { readonly kind: "saw"; readonly what: string; readonly of: (state: State) => boolean };

export interface Noted extends Asked {
  readonly begun: number;
  /** Infinity: no answer came. */
  readonly ended: number;
  readonly told: Told;
}

/** One branch from its creation to its deletion: what clients asked of it, and the commits that its log has. */
export class Life {
  readonly repo: string;
  readonly branch: string;
  /** What the first commit must have; undefined: it was made empty. */
  readonly from: Tree | undefined;
  /** Since its log was last read: the first state is the last one of before. */
  states: State[] = [{ ...NOTHING, generation: 1 }];
  taken: Noted[] = [];
  /** All of its commits, oldest first, with what was said of them. */
  readonly log = new Map<string, string | null>();
  /** Messages that a second commit has, too. */
  repeated: string[] = [];
  readonly #messages = new Set<string>();
  readonly #trees = new Map<string, State>();
  /** What clients saw last at a path, by digests. */
  readonly lastSeen = new Map<string, string>();
  readonly #mostCommits: number;
  #commits = 0;

  constructor(
    address: { readonly repo: string; readonly branch: string },
    {
      from,
      mostCommits,
    }: {
      readonly from?: Tree;
      /** Most commits that clients ask for until its log is read: the branch must not give up what was not read. */
      readonly mostCommits: number;
    },
  ) {
    this.repo = address.repo;
    this.branch = address.branch;
    this.from = from;
    this.#mostCommits = mostCommits;
  }

  get bucket(): string {
    return `${this.branch}.${this.repo}`;
  }

  get path(): string {
    return `/repos/${this.repo}/branches/${this.branch}`;
  }

  get last(): State {
    return this.states.at(-1) ?? NOTHING;
  }

  /** Whether one more commit may be asked for; counts it. */
  admits(): boolean {
    return this.#commits++ < this.#mostCommits;
  }

  /** A commit that its log has. */
  add(state: State): void {
    this.states.push(state);
    if (state.commit === null) return;
    this.log.set(state.commit, state.message);
    if (state.message !== null && this.#messages.has(state.message)) this.repeated.push(state.message);
    if (state.message !== null) this.#messages.add(state.message);
    this.#trees.set(state.commit, state);
  }

  /** Older commits may be given up from now on. */
  forgetAllBut(newest: number): void {
    for (const commit of [...this.#trees.keys()].slice(0, -newest)) this.#trees.delete(commit);
  }

  /** The state that a commit made, unless that may be given up by now. */
  stateOf(commit: string): State | undefined {
    return this.#trees.get(commit);
  }

  /** The newest commits, newest first. */
  newest(count: number): string[] {
    return [...this.#trees.keys()].slice(-count).reverse();
  }

  /** What was compared need not be compared again; what goes on without its client may still come. */
  forget(): void {
    this.states = [this.last];
    this.taken = this.taken.filter(({ told, isLong }) => told.kind === "unknown" && isLong);
    this.repeated = [];
    this.#commits = 0;
  }
}
