import type { ContentId } from "../../../protocol/content.ts";
import type { Sql } from "../../sqlite/sql.ts";
import type { Owner } from "../work/result-store.ts";
import type { MadeStore } from "./made.ts";

/** What a datum's result wrote to a path. */
export interface Written extends Owner, ContentId {
  readonly path: string;
  /** Of the datum. */
  readonly key: string;
}

type Place = Pick<Written, "path" | "key">;

/**
 * What each datum wrote to each path of the output branch, as of the last committed job; which datums those were is
 * kept for every job (made.ts).
 */
export class PublishedStore {
  readonly #sql: Sql;
  readonly #made: MadeStore;

  constructor(sql: Sql, made: MadeStore) {
    this.#sql = sql;
    this.#made = made;
  }

  /** Paths that a datum wrote, from one on, in byte order. */
  ofKey(key: string, { from, limit }: { from: string; limit: number }): string[] {
    return this.#sql.all<{ path: string }>`
      SELECT path FROM published INDEXED BY published_by_key
      WHERE key = ${key} AND path >= ${from} ORDER BY path LIMIT ${limit}`.map(({ path }) => path);
  }

  /** Some of what datums wrote to a path that is not empty, in order of their keys. */
  contents(path: string, limit: number): ContentId[] {
    return this.#sql.all<ContentId>`
      SELECT digest, size FROM published WHERE path = ${path} AND size > 0 ORDER BY key LIMIT ${limit}`;
  }

  add({ path, key, id, salt, digest, size }: Written): void {
    const before = this.#owner({ path, key });
    if (before?.id !== id || before.salt !== salt) {
      if (before) this.#made.kill({ path, key });
      this.#made.bear({ path, key, id, salt });
    }
    this.#sql.run`
      INSERT OR REPLACE INTO published (path, key, id, salt, digest, size)
      VALUES (${path}, ${key}, ${id}, ${salt}, ${digest}, ${size})`;
  }

  remove({ path, key }: Place): void {
    this.#made.kill({ path, key });
    this.#sql.run`DELETE FROM published WHERE path = ${path} AND key = ${key}`;
  }

  #owner({ path, key }: Place): Owner | undefined {
    return this.#sql.first<Owner>`SELECT id, salt FROM published WHERE path = ${path} AND key = ${key}`;
  }
}
