import { type Place, type PlaceRow, placeOfRow } from "../../core/places.ts";
import type { Sql } from "../../objects/sql.ts";
import { BranchStore } from "../store.ts";
import { CommitStore } from "./commit-store.ts";

export interface GenerationRow {
  readonly gen: number;
  /** Part of the names of its blobs. */
  readonly uid: string;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly deletedAt: number | null;
}

/** Where the history of a generation stands: its newest commit, or seq 0 if there is none. */
export interface Head {
  readonly seq: number;
  readonly id: string | null;
  /** Time of the newest commit; of the creation if there is none. */
  readonly modifiedAt: number;
  /** Rows of files that were born, and that died, in this generation so far. */
  readonly births: number;
  readonly deaths: number;
}

/** The generation that lives, and its HEAD. */
export interface Live extends GenerationRow {
  readonly head: Head;
}

/**
 * The branch's generations: each time it was created. Keeps the live one in memory, since each call needs it.
 *
 * Deleting a branch ends its generation. The rows stay for those that still read them. A branch created again under the name
 * starts a new generation, which sees none of them. To a pipeline, a deletion is the commit that empties the input.
 */
export class GenerationStore extends BranchStore {
  readonly #commits: CommitStore;
  /** Null: there is none; undefined: not loaded. */
  #live: Live | null | undefined;
  #advancedAt: number | undefined;

  constructor(sql: Sql) {
    super(sql);
    this.#commits = new CommitStore(sql);
  }

  /** The generation that lives or, if none does, the last one that did. */
  newest(): GenerationRow | undefined {
    return this.sql.first<GenerationRow>`
      SELECT gen, uid, createdAt, deletedAt
      FROM generations ORDER BY gen DESC LIMIT 1`;
  }

  get(gen: number): GenerationRow | undefined {
    return this.sql.first<GenerationRow>`
      SELECT gen, uid, createdAt, deletedAt FROM generations WHERE gen = ${gen}`;
  }

  has(uid: string): boolean {
    return this.sql.has`SELECT 1 FROM generations WHERE uid = ${uid}`;
  }

  /** The generation of this uid, whether it lives or not. */
  byUid(uid: string): GenerationRow | undefined {
    return this.sql.first<GenerationRow>`
      SELECT gen, uid, createdAt, deletedAt FROM generations WHERE uid = ${uid}`;
  }

  live(): Live | null {
    if (this.#live === undefined) {
      const row = this.newest();
      this.#live = row && row.deletedAt === null ? { ...row, head: this.headOf(row) } : null;
    }
    return this.#live;
  }

  headOf({ gen, createdAt }: GenerationRow): Head {
    const commit = this.#commits.newest(gen);
    if (!commit) return { seq: 0, id: null, modifiedAt: createdAt, births: 0, deaths: 0 };
    return { ...commit, modifiedAt: commit.createdAt };
  }

  /** Begins the next generation. */
  begin({ uid, createdAt }: { uid: string; createdAt: number }): void {
    this.enter({ gen: this.#next(), uid, createdAt });
  }

  /** Takes the number of the next generation, which `open` begins: until then it looks deleted. Returns it. */
  reserve({ uid, createdAt }: { uid: string; createdAt: number }): number {
    const gen = this.#next();
    this.sql.run`
      INSERT INTO generations (gen, uid, createdAt, deletedAt) VALUES (${gen}, ${uid}, ${createdAt}, ${createdAt})`;
    this.forget();
    return gen;
  }

  /** Begins a generation that was reserved. */
  open(gen: number): void {
    this.sql.run`UPDATE generations SET deletedAt = NULL WHERE gen = ${gen}`;
    this.forget();
  }

  /** Begins a generation whose rows are there already, under a number above those of all others. */
  enter({ gen, uid, createdAt }: Omit<GenerationRow, "deletedAt">): void {
    this.sql.run`INSERT INTO generations (gen, uid, createdAt) VALUES (${gen}, ${uid}, ${createdAt})`;
    this.forget();
  }

  /**
   * The branch that a generation was forked from, which it is rid of. It is remembered for reads that began before the
   * generation was deleted: they are still at the parent's blobs.
   */
  recordParent({ uid, parent }: { uid: string; parent: string }): void {
    this.sql.run`UPDATE generations SET parent = ${parent} WHERE uid = ${uid}`;
  }

  /** The branches that generations of this one were forked from that are rid of them. */
  parents(): string[] {
    const rows = this.sql.all<{ parent: string }>`
      SELECT DISTINCT parent FROM generations INDEXED BY generations_forked WHERE parent IS NOT NULL`;
    return rows.map(({ parent }) => parent);
  }

  #next(): number {
    return (this.newest()?.gen ?? 0) + 1;
  }

  end(gen: number, deletedAt: number): void {
    this.sql.run`UPDATE generations SET deletedAt = ${deletedAt} WHERE gen = ${gen}`;
    this.wake("history GC");
    this.forget();
  }

  /** The live generation has a commit more, since now. */
  advance(head: Head, now: number): void {
    if (this.#live) this.#live = { ...this.#live, head };
    this.#advancedAt = now;
  }

  /** When the newest commit was made since this was asked last; undefined if there is none. */
  takeAdvance(): number | undefined {
    const at = this.#advancedAt;
    this.#advancedAt = undefined;
    return at;
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#live = undefined;
  }
}

/**
 * Where the object of the branch was made, if a region was named then. An object never moves: so a branch that is deleted and
 * made again stays there, whatever region is named then.
 */
export class PlaceStore extends BranchStore {
  get(): Place | null {
    const row = this.sql.first<PlaceRow>`SELECT region, hint FROM place WHERE one = 1`;
    return row ? placeOfRow(row) : null;
  }

  set({ region, hint }: Place): void {
    this.sql.run`INSERT INTO place (one, region, hint) VALUES (1, ${region}, ${hint})`;
  }
}
