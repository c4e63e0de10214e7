import type { Sql } from "../../sqlite/sql.ts";
import type { Owner } from "../work/result-store.ts";

/** A datum that made a path of the output branch. */
export interface Maker extends Owner {
  readonly key: string;
}

type Place = { readonly path: string; readonly key: string };

/**
 * Which datums each path of the output branch came from, at any job: the history of what is published. It grows as
 * the history of the output branch does, and is kept as long.
 */
export class MadeStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The job whose output is being published, the oldest one that has not ended, has the path from this datum. */
  bear({ path, key, id, salt }: Place & Owner): void {
    this.#sql.run`
      INSERT INTO made (path, born, key, id, salt) VALUES (${path}, ${this.#job()}, ${key}, ${id}, ${salt})
      ON CONFLICT (path, born, key) DO UPDATE SET id = excluded.id, salt = excluded.salt, died = NULL`;
  }

  /** That job has it from this datum no more; fine where it had not. */
  kill({ path, key }: Place): void {
    this.#sql.run`
      UPDATE made INDEXED BY made_alive SET died = ${this.#job()}
      WHERE path = ${path} AND key = ${key} AND died IS NULL`;
  }

  /** The datums that a path came from at a job, in order of their keys, after one; from the first for null. */
  makers({
    path,
    job,
    after,
    limit,
  }: {
    path: string;
    job: number;
    after: string | null;
    limit: number;
  }): Maker[] {
    const first = after === null ? 1 : 0;
    return this.#sql.all<Maker>`
      SELECT id, salt, key FROM (
        SELECT id, salt, key, born FROM made INDEXED BY made_alive WHERE path = ${path} AND died IS NULL
        UNION ALL
        SELECT id, salt, key, born FROM made INDEXED BY made_by_died
        WHERE path = ${path} AND died IS NOT NULL AND died > ${job})
      WHERE born <= ${job} AND (${first} OR key > ${after}) ORDER BY key LIMIT ${limit}`;
  }

  #job(): number {
    return (
      this.#sql.first<{ n: number }>`
      SELECT n FROM jobs WHERE finished_at IS NULL ORDER BY n LIMIT 1`?.n ?? 0
    );
  }
}
