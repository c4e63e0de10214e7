import type { ContentId } from "../../../protocol/content.ts";
import type { Sql } from "../../sqlite/sql.ts";
import type { Written } from "./published-store.ts";

/** What a datum writes to a path, or that it writes there no more: then `id` is null, as is the rest. */
export type Changed = Written | { readonly path: string; readonly key: string; readonly id: null };

/** What a datum writes to a path, by its key. */
export type Part = ContentId & { readonly key: string };

/**
 * What the output commit of the front changes of `published`, while it is being made. Seen together, the two are what
 * the datums of the front write.
 */
export class ChangedStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Whoever says it last is right. */
  set({ path, key, id, salt, digest, size }: Written): void {
    this.#sql.run`
      INSERT OR REPLACE INTO changed (path, key, id, salt, digest, size)
      VALUES (${path}, ${key}, ${id}, ${salt}, ${digest}, ${size})`;
  }

  /** The datum is gone, or another one is in its place. */
  drop({ path, key }: Pick<Written, "path" | "key">): void {
    this.#sql.run`INSERT OR REPLACE INTO changed (path, key) VALUES (${path}, ${key})`;
  }

  /** The first changed path after one; from the first for null. */
  nextPath(after: string | null): string | undefined {
    return this.#sql.first<{ path: string }>`
      SELECT path FROM changed WHERE path > ${after ?? ""} ORDER BY path LIMIT 1`?.path;
  }

  /** What the front's datums write to a path that is not empty, in order of their keys, after one; from the first for null. */
  parts(path: string, { after, limit }: { after: string | null; limit: number }): Part[] {
    return this.#written(path, { after, limit, leastSize: 1 });
  }

  /** The first that any of the front's datums writes to a path. */
  firstPart(path: string): Part | undefined {
    return this.#written(path, { after: null, limit: 1, leastSize: 0 })[0];
  }

  /** The first path below a directory, named without its slash, that a datum of the front writes, and its datum's key. */
  firstBelow(directory: string): string | undefined {
    const [from, to] = [`${directory}/`, `${directory}0`];
    return this.#sql.first<{ key: string }>`
      SELECT path, key FROM changed WHERE path > ${from} AND path < ${to} AND id IS NOT NULL
      UNION ALL
      SELECT path, key FROM published AS p WHERE path > ${from} AND path < ${to}
        AND NOT EXISTS (SELECT 1 FROM changed AS c WHERE c.path = p.path AND c.key = p.key)
      ORDER BY path, key LIMIT 1`?.key;
  }

  /** Takes some out, in order. */
  take(limit: number): Changed[] {
    const rows = this.#sql.all<Changed>`
      SELECT path, key, id, salt, digest, size FROM changed ORDER BY path, key LIMIT ${limit}`;
    for (const { path, key } of rows) {
      this.#sql.run`DELETE FROM changed WHERE path = ${path} AND key = ${key}`;
    }
    return rows;
  }

  #written(
    path: string,
    { after, limit, leastSize }: { after: string | null; limit: number; leastSize: 0 | 1 },
  ): Part[] {
    // The key of the root alone is the empty text.
    const first = after === null ? 1 : 0;
    const from = after ?? "";
    return this.#sql.all<Part>`
      SELECT key, digest, size FROM changed
      WHERE path = ${path} AND key >= ${from} AND (${first} OR key > ${from})
        AND id IS NOT NULL AND size >= ${leastSize}
      UNION ALL
      SELECT key, digest, size FROM published AS p
      WHERE path = ${path} AND key >= ${from} AND (${first} OR key > ${from}) AND size >= ${leastSize}
        AND NOT EXISTS (SELECT 1 FROM changed AS c WHERE c.path = p.path AND c.key = p.key)
      ORDER BY key LIMIT ${limit}`;
  }
}
