import type { Annotation, Redaction } from "../contract/answers.ts";
import type { Lineage } from "../contract/pipelines.ts";
import { BranchStore, standsFor } from "../store.ts";
import { redactedText, saidText } from "./annotation.ts";
import { placeIn } from "./commit-id.ts";

/**
 * The kind of a row of `commits`, by its number. Of what is `gone` only the id and the time are left, for the versions that
 * it wrote or ended.
 */
const COMMIT_KINDS = ["commit", "deletion", "gone"] as const;
type CommitKind = (typeof COMMIT_KINDS)[number];

/** A position in the history: a generation and a commit in it. */
export interface Position {
  readonly gen: number;
  readonly seq: number;
}

export interface CommitRow extends Position {
  readonly id: string;
  readonly kind: CommitKind;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** Rows of files that were born, and that died, in this generation up to this commit. */
  readonly births: number;
  readonly deaths: number;
}

/** A commit's id and time. */
export interface CommitStamp {
  readonly id: string;
  readonly createdAt: number;
}

interface NewCommit extends CommitRow {
  /** The job that made it. */
  readonly origin?: string | undefined;
  readonly annotation?: Annotation | undefined;
}

type StoredRow = Omit<CommitRow, "kind"> & { readonly kind: number };

const SELECT = "SELECT gen, seq, id, kind, createdAt, births, deaths FROM commits WHERE";
const NEWEST = `${SELECT} gen = ? ORDER BY seq DESC LIMIT 1`;
const AT = `${SELECT} gen = ? AND seq = ?`;
/** Of (?1 id, ?2 gen and ?3 seq that it says). */
const BY_ID = `${SELECT} gen = ?2 AND seq = ?3 AND id = ?1
  UNION ALL ${SELECT} elsewhere = 1 AND id = ?1 LIMIT 1`;
/** Of (?1 gen, ?2 JSON of numbers by ids, as they say them): those that are there. */
const NUMBERS = `
  SELECT commits.id AS id, commits.seq AS seq, kind FROM json_each(?2) AS asked
  CROSS JOIN commits ON commits.gen = ?1 AND commits.seq = asked.value AND commits.id = asked.key
  UNION ALL
  SELECT commits.id AS id, commits.seq AS seq, kind FROM json_each(?2) AS asked
  CROSS JOIN commits INDEXED BY commits_by_id ON commits.elsewhere = 1 AND commits.id = asked.key
  WHERE commits.gen = ?1`;
const BY_ORIGIN = `${SELECT} gen = ? AND origin = ?`;
/** A generation that comes out of an archive has a number above those that were begun, and is not to be seen yet. */
const AFTER = `${SELECT} (gen, seq) > (?, ?) AND gen <= (SELECT max(gen) FROM generations) ORDER BY gen, seq LIMIT ?`;

/** Most keys whose numbers are kept in memory. */
const MAX_AUTHORS = 1000;

/** The commits of all generations, and their deletions. */
export class CommitStore extends BranchStore {
  /** Numbers of access keys that made commits. */
  readonly #authors = new Map<string, number>();

  insert({ gen, seq, id, kind, createdAt, births, deaths, origin, annotation }: NewCommit): void {
    const author = annotation?.key === undefined ? null : this.authorOf(annotation.key);
    const place = placeIn(id);
    const elsewhere = place.gen === gen && place.seq === seq ? null : 1;
    this.sql.run`
      INSERT INTO commits (gen, seq, id, kind, createdAt, births, deaths, origin, author, annotation, elsewhere)
      VALUES (${gen}, ${seq}, ${id}, ${COMMIT_KINDS.indexOf(kind)}, ${createdAt}, ${births}, ${deaths},
        ${origin ?? null}, ${author}, ${saidText(annotation)}, ${elsewhere})`;
  }

  /** The number that stands for an access key, which it gets with its first commit: many commits are of few keys. */
  authorOf(key: string): number {
    const known = this.#authors.get(key);
    if (known !== undefined) return known;
    this.sql.run`INSERT INTO authors (key) VALUES (${key}) ON CONFLICT DO NOTHING`;
    const { number } = this.sql.one<{ number: number }>`SELECT number FROM authors WHERE key = ${key}`;
    if (this.#authors.size >= MAX_AUTHORS) this.#authors.clear();
    this.#authors.set(key, number);
    return number;
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#authors.clear();
  }

  newest(gen: number): CommitRow | undefined {
    return this.#query(NEWEST, [gen])[0];
  }

  at({ gen, seq }: Position): CommitRow | undefined {
    return this.#query(AT, [gen, seq])[0];
  }

  byId(id: string): CommitRow | undefined {
    const { gen, seq } = placeIn(id);
    return this.#query(BY_ID, [id, gen, seq])[0];
  }

  /** The numbers and kinds of some commits of a generation, by their ids; what is none is left out. */
  numbersOf(gen: number, ids: Iterable<string>): Map<string, Pick<CommitRow, "seq" | "kind">> {
    const asked = Object.fromEntries(Array.from(ids, (id) => [id, placeIn(id).seq]));
    const rows = this.sql.query<Pick<StoredRow, "id" | "seq" | "kind">>(NUMBERS, [
      gen,
      JSON.stringify(asked),
    ]);
    return new Map(rows.map(({ id, seq, kind }) => [id, { seq, kind: kindOf(kind) }]));
  }

  /** The ids and times of some of a generation's commits, by number. Throws for a commit that is not there. */
  stamps(gen: number, seqs: readonly number[]): (seq: number) => CommitStamp {
    const rows = this.sql.all<CommitStamp & { seq: number }>`
      SELECT seq, id, createdAt FROM commits
      WHERE gen = ${gen} AND seq IN (SELECT value FROM json_each(${JSON.stringify(seqs)}))`;
    const stamps = new Map(rows.map(({ seq, id, createdAt }) => [seq, { id, createdAt }]));
    return (seq) => {
      const stamp = stamps.get(seq);
      if (!stamp) throw new Error(`commit ${seq} of generation ${gen} is not there`);
      return stamp;
    };
  }

  /** The number of the newest commit of a generation whose id is this one or less, which may be gone; 0 if there is none. */
  seqUpTo(gen: number, id: string): number {
    const found = this.byId(id);
    if (found?.gen === gen) return found.seq;
    // Ids grow as commits do. Looks at twenty rows for a million commits.
    let [low, high] = [0, this.newest(gen)?.seq ?? 0];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      const row = this.sql.first<{ seq: number; id: string }>`
        SELECT seq, id FROM commits WHERE gen = ${gen} AND seq >= ${middle} ORDER BY seq LIMIT 1`;
      if (row && row.id <= id) low = row.seq;
      else high = middle - 1;
    }
    return low;
  }

  /** What a client said of a commit (annotation.ts); null if nothing was said. */
  saidOf({ gen, seq }: Position): string | null {
    return (
      this.sql.first<{ annotation: string | null }>`
        SELECT annotation FROM commits WHERE gen = ${gen} AND seq = ${seq}`?.annotation ?? null
    );
  }

  /** Who made it stays. */
  redact({ gen, seq }: Position, redacted: Redaction): void {
    this.sql
      .run`UPDATE commits SET annotation = ${redactedText(redacted)} WHERE gen = ${gen} AND seq = ${seq}`;
  }

  /**
   * What was said of a commit is to be in no earlier life of the branch either: an import that brought the commit back has left
   * its row there, under another id (history/archives/import-rows.ts). Returns whether it was.
   */
  forgetAnnotationsBefore(id: string): boolean {
    return this.sql.run`
      UPDATE commits INDEXED BY commits_by_id SET annotation = NULL
      WHERE elsewhere = 1 AND id > ${`~${id}.`} AND id < ${`~${id}/`} AND annotation IS NOT NULL`;
  }

  /** The job that made a commit; null if none did. */
  originOf({ gen, seq }: Position): string | null {
    return (
      this.sql.first<{ origin: string | null }>`
        SELECT origin FROM commits WHERE gen = ${gen} AND seq = ${seq}`?.origin ?? null
    );
  }

  /** The commit that a job made already. */
  byOrigin(gen: number, origin: string): CommitRow | undefined {
    return this.#query(BY_ORIGIN, [gen, origin])[0];
  }

  /** Those after a position, across generations, oldest first. */
  after({ gen, seq }: Position, limit: number): CommitRow[] {
    return this.#query(AFTER, [gen, seq, limit]);
  }

  #query(text: string, values: readonly (string | number)[]): CommitRow[] {
    const rows = this.sql.query<StoredRow>(text, values);
    return rows.map((row) => ({ ...row, kind: kindOf(row.kind) }));
  }
}

function kindOf(number: number): CommitKind {
  return standsFor(COMMIT_KINDS, number, "gone");
}

/**
 * What the commits of jobs descend from. A row holds from its commit on until the next one, so that a branch whose
 * jobs always read the same pipelines has one. Commits of clients descend from nothing.
 */
export class LineageStore extends BranchStore {
  /** The commit at this position, if a job makes it, has this lineage. */
  record({ gen, seq }: Position, lineage: Lineage): void {
    const text = JSON.stringify(lineage);
    const last = this.sql.first<{ lineage: string }>`
      SELECT lineage FROM lineages WHERE gen = ${gen} AND seq <= ${seq} ORDER BY seq DESC LIMIT 1`;
    if (last?.lineage === text) return;
    // The job that noted another one for this commit did not make it.
    this.sql.run`INSERT OR REPLACE INTO lineages (gen, seq, lineage) VALUES (${gen}, ${seq}, ${text})`;
  }

  /** Undefined: a client made the commit. */
  of({ gen, seq }: Position): Lineage | undefined {
    const row = this.sql.first<{ lineage: string }>`
      SELECT l.lineage FROM commits AS c CROSS JOIN lineages AS l ON l.gen = c.gen AND l.seq <= c.seq
      WHERE c.gen = ${gen} AND c.seq = ${seq} AND c.origin IS NOT NULL ORDER BY l.seq DESC LIMIT 1`;
    return row && JSON.parse(row.lineage);
  }
}
