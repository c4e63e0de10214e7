import type { NaiveBranch, NaiveEvent, Position } from "./naive-branch.ts";
import { holdsFile, type NaiveGlob, type Tree } from "./naive-tree.ts";

export interface NaiveInput {
  readonly name: string;
  readonly repo: string;
  readonly glob: NaiveGlob;
}

export interface NaiveSpec {
  readonly cmd: string;
  readonly workers: number;
  /** Of the external store that results are pushed to. */
  readonly store: string | null;
  /** Whether jobs succeed without bad datums. */
  readonly skips: boolean;
  /** In order of their names. */
  readonly inputs: readonly NaiveInput[];
}

/** A job that there must be, and what it reads. */
export interface NaiveJob {
  readonly inputs: readonly (NaiveInput & { readonly tree: Tree; readonly commit: string | null })[];
  readonly cmd: string;
  /** Results of another one do not count. */
  readonly salt: number;
  /** Whether it succeeds without bad datums. */
  readonly skips: boolean;
  /** Whether it was ended before its time, and by what. */
  killed?: "with the others" | "by itself";
  /** Its end was checked. */
  checked?: true;
}

/** How far a branch was read. */
interface Cursor extends Position {
  /** Events that lie behind. */
  read: number;
  tree: Tree;
  commit: string | null;
}

export type NaiveUpdate = "reprocess" | "unchanged" | "settings" | "transform" | "inputs";

/**
 * Which jobs there must be, from the histories of the branches and what was asked of the pipeline (docs/contract.md, Jobs): one
 * for each event once every input holds a file, in order of (time, id), and one for each start or update that wants it.
 */
export class NaivePipeline {
  readonly jobs: NaiveJob[] = [];
  readonly #branches: ReadonlyMap<string, NaiveBranch>;
  readonly #cursors = new Map<string, Cursor>();
  #spec: NaiveSpec;
  #salt = 1;
  #begun = false;
  #owed = false;
  #stopped = false;

  constructor(branches: ReadonlyMap<string, NaiveBranch>, spec: NaiveSpec) {
    this.#branches = branches;
    this.#spec = spec;
    for (const repo of this.repos) this.#follow(repo);
    if (this.#allHoldFiles()) this.#addJob();
  }

  get spec(): NaiveSpec {
    return this.#spec;
  }

  get salt(): number {
    return this.#salt;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** The distinct branches that it reads. */
  get repos(): string[] {
    return [...new Set(this.#spec.inputs.map(({ repo }) => repo))];
  }

  /** Where each branch is read to in the end. */
  lastRead(): Map<string, Position> {
    return new Map(
      this.repos.map((repo) => [
        repo,
        this.#branch(repo).events.slice(this.#cursor(repo).read).at(-1) ?? this.#cursor(repo),
      ]),
    );
  }

  /** Reads everything that has happened. */
  readAll(): void {
    this.readTo(this.lastRead());
  }

  /** Reads up to where it really was read to, which must be how far one comes by going in order. */
  readTo(target: ReadonlyMap<string, Position>): void {
    for (;;) {
      const next = this.#nextEvent();
      if (!next || isSame(target, (repo) => this.#cursor(repo))) break;
      this.#take(next);
    }
    if (isSame(target, (repo) => this.#cursor(repo))) return;
    throw new Error(`the events were not read in order: up to ${JSON.stringify([...target])}`);
  }

  /** Reads until there are so many jobs. */
  readJobs(count: number): void {
    for (let next = this.#nextEvent(); next && this.jobs.length < count; next = this.#nextEvent())
      this.#take(next);
  }

  /** A job was ended before its time. */
  kill(index: number, how: NaiveJob["killed"]): void {
    const job = this.jobs[index];
    if (!job || how === undefined) throw new Error(`there is no job ${index}`);
    job.killed = how;
  }

  /** `owing`: something was left undone. */
  stop({ owing }: { owing: boolean }): void {
    this.#stopped = true;
    this.#owed ||= owing;
  }

  /** Everything that happened while it was stopped is in one job. */
  start(): void {
    this.#stopped = false;
    for (const repo of this.repos) {
      const before = this.#cursors.get(repo);
      this.#follow(repo);
      const { generation, seq } = this.#cursor(repo);
      if (before?.generation !== generation || before.seq !== seq) this.#owed = true;
    }
    if (this.#begun ? this.#owed : this.#allHoldFiles()) this.#addJob();
  }

  update(kind: NaiveUpdate, spec: NaiveSpec): void {
    if (kind === "unchanged") return;
    // With another store, all of the output is to be there.
    const isForAll = kind !== "settings" || spec.store !== this.#spec.store;
    this.#spec = spec;
    if (kind === "reprocess" || kind === "transform") this.#salt++;
    if (kind === "inputs") {
      this.#begun = false;
      for (const repo of this.#cursors.keys()) if (!this.repos.includes(repo)) this.#cursors.delete(repo);
      for (const repo of this.repos) if (!this.#cursors.has(repo)) this.#follow(repo);
    }
    if (this.#stopped) {
      this.#owed ||= isForAll;
    } else if (this.#begun || (kind !== "settings" && this.#allHoldFiles())) this.#addJob();
  }

  #take({ repo, event }: { repo: string; event: NaiveEvent }): void {
    const { generation, seq, tree } = event;
    const commit = event.kind === "commit" ? event.id : null;
    this.#cursors.set(repo, { generation, seq, tree, commit, read: this.#cursor(repo).read + 1 });
    if (this.#begun || this.#allHoldFiles()) this.#addJob();
  }

  #nextEvent(): { repo: string; event: NaiveEvent } | undefined {
    return this.repos
      .flatMap((repo) =>
        this.#branch(repo)
          .events.slice(this.#cursor(repo).read)
          .map((event) => ({ repo, event })),
      )
      .sort(({ event: a }, { event: b }) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))[0];
  }

  /** From now on. */
  #follow(repo: string): void {
    const { events, head, tree } = this.#branch(repo);
    const { generation, seq } = head;
    const last = events.at(-1);
    const commit = seq > 0 && last?.kind === "commit" ? last.id : null;
    this.#cursors.set(repo, { generation, seq, tree, commit, read: events.length });
  }

  #addJob(): void {
    this.#begun = true;
    this.#owed = false;
    const inputs = this.#spec.inputs.map((input) => {
      const { tree, commit } = this.#cursor(input.repo);
      return { ...input, tree, commit };
    });
    const { cmd, skips } = this.#spec;
    this.jobs.push({ inputs, cmd, skips, salt: this.#salt });
  }

  #allHoldFiles(): boolean {
    return this.repos.every((repo) => holdsFile(this.#cursor(repo).tree));
  }

  #branch(repo: string): NaiveBranch {
    return present(this.#branches.get(repo), repo);
  }

  #cursor(repo: string): Cursor {
    return present(this.#cursors.get(repo), repo);
  }
}

function isSame(target: ReadonlyMap<string, Position>, at: (repo: string) => Position): boolean {
  return [...target].every(
    ([repo, { generation, seq }]) => at(repo).generation === generation && at(repo).seq === seq,
  );
}

function present<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`the model has no branch ${name}`);
  return value;
}
