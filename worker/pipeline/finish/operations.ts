import type { ContentId } from "../../../protocol/content.ts";
import type { Operation } from "../../branch/contract.ts";
import type { Sql } from "../../sqlite/sql.ts";

/** What an output commit does to a path. `waits`: for a merge; `merge`: the one that the content comes from. */
export type PlannedOperation =
  | { readonly state: "put"; readonly content: ContentId; readonly merge: string | null }
  | { readonly state: "delete" | "same" | "waits" };

interface Row {
  readonly path: string;
  readonly state: PlannedOperation["state"];
  readonly digest: string | null;
  readonly size: number | null;
}

/** What the output commit of the front does to each path that it changes, while it is being made. */
export class OperationStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  set(path: string, operation: PlannedOperation): void {
    const put = operation.state === "put" ? operation : undefined;
    this.#sql.run`
      INSERT OR REPLACE INTO operations (path, state, digest, size, merge)
      VALUES (${path}, ${operation.state}, ${put?.content.digest ?? null}, ${put?.content.size ?? null},
        ${put?.merge ?? null})`;
  }

  /** How many the branch is to be told of, counted up to `limit`. */
  count(limit: number): number {
    return (
      this.#sql.first<{ count: number }>`
        SELECT count(*) AS count FROM (SELECT 1 FROM operations WHERE state <> 'same' LIMIT ${limit})`
        ?.count ?? 0
    );
  }

  /** The last path that there is an operation for: they are made in order. */
  lastPath(): string | null {
    return (
      this.#sql.first<{ path: string }>`
      SELECT path FROM operations ORDER BY path DESC LIMIT 1`?.path ?? null
    );
  }

  /** The first path after one that waits for a merge; from the first for null. */
  nextWaiting(after: string | null): string | undefined {
    return this.#sql.first<{ path: string }>`
      SELECT path FROM operations INDEXED BY operations_waiting
      WHERE state = 'waits' AND path > ${after ?? ""} ORDER BY path LIMIT 1`?.path;
  }

  /** The content that is put to a path, and the merge that it comes from. */
  put(path: string): (ContentId & { merge: string | null }) | undefined {
    return this.#sql.first<ContentId & { merge: string | null }>`
      SELECT digest, size, merge FROM operations WHERE path = ${path} AND state = 'put'`;
  }

  /** What the branch is to be told, after a path. */
  page({ after, limit }: { after: string; limit: number }): { path: string; operation: Operation }[] {
    return this.#sql.all<Row>`
      SELECT path, state, digest, size FROM operations
      WHERE path > ${after} AND state <> 'same' ORDER BY path LIMIT ${limit}`.map((row) => ({
      path: row.path,
      operation: operationOf(row),
    }));
  }

  /** Takes some out, in order, with those that do nothing. */
  take(limit: number): { path: string; operation: Operation | null }[] {
    const rows = this.#sql.all<Row>`
      SELECT path, state, digest, size FROM operations ORDER BY path LIMIT ${limit}`;
    for (const { path } of rows) this.#sql.run`DELETE FROM operations WHERE path = ${path}`;
    return rows.map((row) => ({ path: row.path, operation: row.state === "same" ? null : operationOf(row) }));
  }
}

function operationOf({ path, digest, size }: Row): Operation {
  return digest === null || size === null ? { delete: path } : { put: path, digest, size };
}
