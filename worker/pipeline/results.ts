import type { ContentId } from "../../protocol/content.ts";
import type { Output } from "../../protocol/runner.ts";
import type { Sql } from "./sql.ts";

export interface OutputRow extends ContentId {
  readonly path: string;
}

export interface Result {
  readonly id: string;
  readonly job: number;
  readonly exitCode: number;
  readonly millis: number;
  readonly upload: string | null;
  readonly outputs: readonly Output[];
  readonly now: number;
}

/** Successes and what they wrote, by datum id: a datum that comes back after its death is done already. */
export class ResultStore {
  readonly #sql: Sql;
  readonly #salt: () => string;

  /** `salt`: results of another one do not count. */
  constructor(sql: Sql, salt: () => string) {
    this.#sql = sql;
    this.#salt = salt;
  }

  has(id: string): boolean {
    return this.#sql.first`SELECT 1 FROM results WHERE id = ${id} AND salt = ${this.#salt()}` !== undefined;
  }

  record({ id, job, exitCode, millis, upload, outputs, now }: Result): void {
    const salt = this.#salt();
    this.#sql.run`
      INSERT OR REPLACE INTO results (id, salt, job, exit_code, millis, upload, finished_at)
      VALUES (${id}, ${salt}, ${job}, ${exitCode}, ${millis}, ${upload}, ${now})`;
    for (const { path, digest, size } of outputs) {
      this.#sql.run`
        INSERT OR REPLACE INTO outputs (id, salt, path, digest, size)
        VALUES (${id}, ${salt}, ${path}, ${digest}, ${size})`;
    }
  }

  /** Forgets a result whose contents are gone. */
  drop(id: string): void {
    this.#sql.run`DELETE FROM outputs WHERE id = ${id} AND salt = ${this.#salt()}`;
    this.#sql.run`DELETE FROM results WHERE id = ${id} AND salt = ${this.#salt()}`;
  }

  outputs(id: string): OutputRow[] {
    return this.#sql.all<OutputRow>`
      SELECT path, digest, size FROM outputs WHERE id = ${id} AND salt = ${this.#salt()} ORDER BY path`;
  }
}

/** Which datums each path of the output branch came from, as of the last committed job. */
export class PublishedStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The datums that wrote a path: one for a file, any number for an empty directory. */
  owners(path: string): string[] {
    return this.#sql.all<{ id: string }>`SELECT id FROM published WHERE path = ${path}`.map((row) => row.id);
  }

  /** The first published path under a directory. */
  firstUnder(directory: string): string | undefined {
    return this.#sql.first<{ path: string }>`
      SELECT path FROM published WHERE path > ${`${directory}/`} AND path < ${`${directory}0`} ORDER BY path LIMIT 1`
      ?.path;
  }

  add(path: string, id: string): void {
    this.#sql.run`INSERT OR IGNORE INTO published (path, id) VALUES (${path}, ${id})`;
  }

  remove(path: string, id: string): void {
    this.#sql.run`DELETE FROM published WHERE path = ${path} AND id = ${id}`;
  }
}
