import type { Annotation } from "../contract/answers.ts";
import type { ChangedCondition } from "../contract/open-commits.ts";
import { BranchStore, standsFor } from "../store.ts";
import { annotationText, readAnnotation } from "../tree/annotation.ts";
import type { Position } from "../tree/commit-store.ts";
import type { OpenCommit } from "./open-commit-store.ts";

/** The open commit that is becoming a large commit, slice by slice. */
export interface Applying {
  readonly openCommit: number;
  /** Its name to the outside. */
  readonly id: string;
  readonly gen: number;
  /** The commit that its rows are written for; null while it is worked out or checked, and then no row is written. */
  readonly seq: number | null;
  /** Whether it is a revert of which is still worked out what it changes. */
  readonly isReverting: boolean;
}

/** How far it is worked out what a revert changes: among what was born since its target, what died since, or through. */
export interface RevertProgress {
  /** The commit that it goes back to, and HEAD as it began. */
  readonly target: number;
  readonly head: number;
  readonly walk: "births" | "deaths" | "through";
  /** It went through all that was born or died up to this commit and path. */
  readonly seq: number;
  readonly path: string;
}

/** How far a revert is, by the number in its row. */
const WALKS = ["births", "deaths", "through"] as const;

interface StoredRow extends Omit<Applying, "isReverting"> {
  readonly isReverting: 0 | 1;
}

/** How far a check came: through the path `checked`, and below the next one up to `below`. */
export interface CheckProgress {
  readonly checked: string;
  readonly below: string | null;
}

/** How far the conditions of an open commit were looked at, and what was found. */
export interface ConditionProgress {
  /** Through this path. */
  readonly comparedTo: string;
  readonly changed: FoundChanges;
}
export interface FoundChanges {
  readonly changes: readonly ChangedCondition[];
  readonly others: number;
}

export const NONE_CHANGED: FoundChanges = { changes: [], others: 0 };

/** Rows of files that were written and that were ended so far. */
interface Written {
  readonly births: number;
  readonly deaths: number;
}

/** The one commit that is being applied, if any is. Kept in memory, as each call needs it. */
export class ApplyingStore extends BranchStore {
  /** Null: there is none; undefined: not loaded. */
  #applying: Applying | null | undefined;

  get(): Applying | null {
    if (this.#applying === undefined) {
      const row = this.#written() ?? this.#reverting();
      this.#applying = row ? { ...row, isReverting: row.isReverting === 1 } : null;
    }
    return this.#applying;
  }

  /** Whether rows of a commit that is not made yet may be in a generation. */
  writesTo(gen: number): boolean {
    const applying = this.get();
    return applying !== null && applying.gen === gen && applying.seq !== null;
  }

  /** Begins with the check. `annotation`: of the commit that is to come. */
  begin({ number, gen }: OpenCommit, annotation: Annotation | undefined): void {
    this.sql.run`
      INSERT INTO applying (one, openCommit, gen, checked, births, deaths, annotation)
      VALUES (1, ${number}, ${gen}, '', 0, 0, ${annotationText(annotation)})`;
    this.wake("large commit");
    this.forget();
  }

  annotation(): Annotation | undefined {
    const row = this.sql.first<{ annotation: string | null }>`SELECT annotation FROM applying WHERE one = 1`;
    return row && readAnnotation(row.annotation);
  }

  /** Begins with working out what a revert changes. */
  beginRevert({ number, gen }: OpenCommit, { target, head }: Pick<RevertProgress, "target" | "head">): void {
    this.sql.run`
      INSERT INTO reverting (one, openCommit, gen, target, head, walk, seq, path)
      VALUES (1, ${number}, ${gen}, ${target}, ${head}, 0, ${target + 1}, '')`;
    this.wake("large commit");
    this.forget();
  }

  revert(): RevertProgress | undefined {
    const row = this.sql.first<Omit<RevertProgress, "walk"> & { walk: number }>`
      SELECT target, head, walk, seq, path FROM reverting WHERE one = 1`;
    return row && { ...row, walk: standsFor(WALKS, row.walk, "through") };
  }

  saveRevert({ walk, seq, path }: Pick<RevertProgress, "walk" | "seq" | "path">): void {
    this.sql.run`
      UPDATE reverting SET walk = ${WALKS.indexOf(walk)}, seq = ${seq}, path = ${path} WHERE one = 1`;
  }

  progress(): CheckProgress {
    return this.sql.one<CheckProgress>`SELECT checked, below FROM applying WHERE one = 1`;
  }

  saveProgress({ checked, below }: CheckProgress): void {
    this.sql.run`UPDATE applying SET checked = ${checked}, below = ${below} WHERE one = 1`;
  }

  /** How far the conditions were looked at. */
  conditions(): ConditionProgress {
    const { comparedTo, changed } = this.sql.one<{ comparedTo: string | null; changed: string | null }>`
      SELECT comparedTo, changed FROM applying WHERE one = 1`;
    return { comparedTo: comparedTo ?? "", changed: changed ? JSON.parse(changed) : NONE_CHANGED };
  }

  saveConditions({ comparedTo, changed }: ConditionProgress): void {
    this.sql.run`
      UPDATE applying SET comparedTo = ${comparedTo}, changed = ${JSON.stringify(changed)} WHERE one = 1`;
  }

  /** The check is over and rows are written from now on: nothing can stop the commit any more. */
  startWriting({ seq }: Pick<Position, "seq">): void {
    this.sql.run`UPDATE applying SET seq = ${seq} WHERE one = 1`;
    this.forget();
  }

  count({ births, deaths }: Written): void {
    this.sql.run`UPDATE applying SET births = births + ${births}, deaths = deaths + ${deaths} WHERE one = 1`;
  }

  written(): Written {
    return this.sql.one<Written>`SELECT births, deaths FROM applying WHERE one = 1`;
  }

  /** Nothing is being applied any more. */
  clear(): void {
    this.sql.run`DELETE FROM applying WHERE one = 1`;
    this.sql.run`DELETE FROM reverting WHERE one = 1`;
    // Writers wait for its end, and so do lifecycle rules.
    this.wake("large commit");
    this.wake("lifecycle scan");
    this.forget();
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#applying = undefined;
  }

  #written(): StoredRow | undefined {
    return this.sql.first<StoredRow>`
      SELECT applying.openCommit AS openCommit, open_commits.id AS id, applying.gen AS gen, seq, 0 AS isReverting
      FROM applying CROSS JOIN open_commits ON open_commits.number = applying.openCommit WHERE one = 1`;
  }

  #reverting(): StoredRow | undefined {
    return this.sql.first<StoredRow>`
      SELECT reverting.openCommit AS openCommit, open_commits.id AS id, reverting.gen AS gen, NULL AS seq, 1 AS isReverting
      FROM reverting CROSS JOIN open_commits ON open_commits.number = reverting.openCommit WHERE one = 1`;
  }
}
