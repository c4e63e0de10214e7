import type { Annotation } from "../contract/answers.ts";
import { BranchStore, standsFor } from "../store.ts";
import { annotationText, readAnnotation } from "../tree/annotation.ts";

/** The state of a fork, by the number in its row. */
const STATES = ["asked", "copying", "made", "purging"] as const;
type ForkState = (typeof STATES)[number];
const [ASKED, COPYING, MADE, PURGING] = [0, 1, 2, 3];

/** What a branch was made from, and how far that is. `forker.ts` tells the states. */
export interface Fork {
  /** That of its generation. */
  readonly uid: string;
  /** Its generation; null until the parent has written the fork down. */
  readonly gen: number | null;
  /** Bucket of the parent. */
  readonly parent: string;
  /** The commit that it is made from; while it is `asked`, null stands for the newest. Null: the parent had none. */
  readonly commit: string | null;
  readonly state: ForkState;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** The last path that was copied. */
  readonly copied: string;
  /** Files and empty directories that were copied, and that there are. */
  readonly files: number;
  readonly total: number;
  /** Of the commit that it begins with, as its maker gave it. */
  readonly annotation: Annotation | undefined;
}

type StoredRow = Omit<Fork, "state" | "annotation"> & {
  readonly state: number;
  readonly annotation: string | null;
};

const SELECT = `
  SELECT uid, gen, parent, "commit", state, createdAt, copied, files, total, annotation
  FROM forks`;
const BY_UID = `${SELECT} WHERE uid = ?`;
const PRESENT = `${SELECT} WHERE state < ${PURGING} ORDER BY uid DESC LIMIT 1`;
const UNFINISHED = `${SELECT} WHERE state <> ${MADE} ORDER BY uid DESC`;

/** What the generations of this branch were made from, if from a commit of another one. */
export class ForkStore extends BranchStore {
  ask({
    uid,
    parent,
    commit,
    createdAt,
    annotation,
  }: Pick<Fork, "uid" | "parent" | "commit" | "createdAt" | "annotation">): void {
    this.sql.run`
      INSERT INTO forks (uid, parent, "commit", state, createdAt, copied, files, total, annotation)
      VALUES (${uid}, ${parent}, ${commit}, ${ASKED}, ${createdAt}, '', 0, 0, ${annotationText(annotation)})`;
  }

  get(uid: string): Fork | undefined {
    return this.#query(BY_UID, [uid])[0];
  }

  /** The one that the branch is, or will be. */
  present(): Fork | undefined {
    return this.#query(PRESENT, [])[0];
  }

  /** The generation whose rows are being copied: the catalogue knows it, and nobody reads it yet. */
  coming(): Fork | undefined {
    const fork = this.present();
    return fork?.state === "copying" ? fork : undefined;
  }

  /** The branches that this one has blobs of, as far as it is not rid of them. */
  parents(): string[] {
    const rows = this.sql.all<{ parent: string }>`SELECT parent FROM forks`;
    return [...new Set(rows.map(({ parent }) => parent))];
  }

  /** Whether this branch never was a fork, or is rid of what it was. */
  get isEmpty(): boolean {
    return !this.sql.has`SELECT 1 FROM forks LIMIT 1`;
  }

  /** Those that are not a branch yet, or no longer; the newest first, for which somebody waits. */
  unfinished(): Fork[] {
    return this.#query(UNFINISHED, []);
  }

  /** The parent has written it down: rows are copied from now on. */
  startCopying(
    uid: string,
    { gen, commit, total }: { gen: number; commit: string | null; total: number },
  ): void {
    this.sql.run`
      UPDATE forks SET state = ${COPYING}, gen = ${gen}, "commit" = ${commit}, total = ${total} WHERE uid = ${uid}`;
    this.wake("forks");
  }

  advance(uid: string, { copied, files }: { copied: string; files: number }): void {
    this.sql.run`UPDATE forks SET copied = ${copied}, files = files + ${files} WHERE uid = ${uid}`;
  }

  made(uid: string): void {
    this.sql.run`UPDATE forks SET state = ${MADE} WHERE uid = ${uid}`;
  }

  /** What was said of the commit that a fork begins with is to be nowhere. Returns whether anything was said. */
  forgetAnnotation(uid: string): boolean {
    return this.sql.run`UPDATE forks SET annotation = NULL WHERE uid = ${uid} AND annotation IS NOT NULL`;
  }

  /** The last path that was copied is of no use once all are, and may be erased. */
  forgetPlace(uid: string): void {
    this.sql.run`UPDATE forks SET copied = '' WHERE uid = ${uid} AND state = ${MADE} AND copied <> ''`;
  }

  purge(uid: string): void {
    this.sql.run`UPDATE forks SET state = ${PURGING} WHERE uid = ${uid}`;
    this.wake("forks");
  }

  /** Forks whose generation was deleted have to go. */
  purgeEnded(): void {
    const ended = this.sql.run`
      UPDATE forks SET state = ${PURGING} WHERE state = ${MADE} AND EXISTS (
        SELECT 1 FROM generations WHERE generations.gen = forks.gen AND deletedAt IS NOT NULL
      )`;
    if (ended) this.wake("forks");
  }

  remove(uid: string): void {
    this.sql.run`DELETE FROM forks WHERE uid = ${uid}`;
  }

  #query(text: string, values: readonly string[]): Fork[] {
    const rows = this.sql.query<StoredRow>(text, values);
    return rows.map((row) => ({
      ...row,
      state: standsFor(STATES, row.state, "purging"),
      annotation: readAnnotation(row.annotation),
    }));
  }
}
