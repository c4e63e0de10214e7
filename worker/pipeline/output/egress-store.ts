import type { ContentId } from "../../../protocol/content.ts";
import { Store } from "../../objects/store.ts";

/** A file that the external store is to get; null content: that it is to lose. */
export interface EgressEntry {
  readonly path: string;
  readonly content: ContentId | null;
}

/** What the external store lacks of the last committed output. */
export class EgressStore extends Store {
  /** The latest on a path wins: a task that has an earlier one has sent nothing. Empty directories are not sent. */
  add({ path, content }: EgressEntry): void {
    if (path.endsWith("/")) return;
    this.sql.run`
      INSERT OR REPLACE INTO egress_pending (path, digest, size, task)
      VALUES (${path}, ${content?.digest ?? null}, ${content?.size ?? null}, NULL)`;
  }

  isPending(): boolean {
    return this.sql.has`SELECT 1 FROM egress_pending LIMIT 1`;
  }

  /** How many no task has, counted up to `limit`. */
  free(limit: number): number {
    return this.sql.number`
      SELECT count(*) FROM (
        SELECT 1 FROM egress_pending INDEXED BY egress_by_task WHERE task IS NULL LIMIT ${limit})`;
  }

  /** Gives some that no task has to a task. */
  assign(task: string, limit: number): void {
    this.sql.run`
      UPDATE egress_pending SET task = ${task} WHERE path IN (
        SELECT path FROM egress_pending INDEXED BY egress_by_task WHERE task IS NULL ORDER BY path LIMIT ${limit})`;
  }

  ofTask(task: string): EgressEntry[] {
    return this.sql.all<{ path: string; digest: string | null; size: number | null }>`
      SELECT path, digest, size FROM egress_pending INDEXED BY egress_by_task
      WHERE task = ${task} ORDER BY path`.map(({ path, digest, size }) => ({
      path,
      content: digest === null || size === null ? null : { digest, size },
    }));
  }

  /** The task has sent what it had: what is still as it was then is pending no more. */
  pushed(task: string): void {
    this.sql.run`DELETE FROM egress_pending WHERE task = ${task}`;
  }

  /** What a task had is for others. */
  release(task: string): void {
    this.sql.run`UPDATE egress_pending SET task = NULL WHERE task = ${task}`;
  }

  /** Forgets some; returns false if nothing is left. */
  forget(limit: number): boolean {
    const rows = this.sql.all`
      DELETE FROM egress_pending WHERE path IN (SELECT path FROM egress_pending LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }

  /** Results go elsewhere from now on, or nowhere: what is pending is of no use. */
  move(): void {
    this.sql.run`INSERT OR IGNORE INTO egress_moved (one) VALUES (1)`;
  }

  /** Whether what is pending is of no use. */
  get hasMoved(): boolean {
    return this.sql.has`SELECT 1 FROM egress_moved`;
  }

  /** What is pending is all that the external store lacks. */
  arrive(): void {
    this.sql.run`DELETE FROM egress_moved`;
  }
}
