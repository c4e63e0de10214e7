import type { Sql } from "../../sqlite/sql.ts";

/** A place in the walk over what died or was born: that datum, from that path of it on. */
export interface WalkPlace {
  readonly job: number;
  readonly key: string;
  readonly path: string;
}

/**
 * What is left to do until the front has ended, all of whose datums have a result. What came of an ending that was
 * given up is cleared; the datums that died, then those that were born since the last commit say what changes; for
 * each changed path it is planned what becomes of it, which may take merges; the plan is staged, where it is large,
 * and committed; then it is published, which is what the next job's commit builds upon. Last, what changed is pushed
 * to the external store; where that is another one by now, what was pending is forgotten and everything is listed.
 */
export type EndingStep =
  | { readonly step: "clear" | "plan" | "publish" | "forget" | "push" }
  | { readonly step: "commit"; readonly staged: boolean }
  | ({ readonly step: "died" | "born" } & WalkPlace)
  | { readonly step: "stage" | "list"; readonly after: string };

/** How far the end of the front has come. */
export class EndingStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Of the job that last began to end; undefined where nothing is left of it. */
  get(): { job: number; at: EndingStep } | undefined {
    const row = this.#sql.first<{ job: number; step: string }>`SELECT job, step FROM ending WHERE one = 1`;
    return row && { job: row.job, at: JSON.parse(row.step) };
  }

  set(job: number, at: EndingStep): void {
    this.#sql.run`INSERT OR REPLACE INTO ending (one, job, step) VALUES (1, ${job}, ${JSON.stringify(at)})`;
  }

  /** Nothing is left of it. */
  remove(): void {
    this.#sql.run`DELETE FROM ending`;
  }
}
