import type { ContentId } from "../../../protocol/content.ts";
import type { Output } from "../../../protocol/runner.ts";
import type { Sql } from "../../sqlite/sql.ts";
import { Store } from "../../sqlite/store.ts";

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
  /** The number of what made it (code-store.ts). */
  readonly code: number;
  readonly now: number;
}

/** Where a result comes from. */
export interface ResultOrigin {
  /** The job that it was made in. */
  readonly job: number;
  /** How the command ended. */
  readonly exitCode: number;
  /** Null: it was made before this was kept. */
  readonly code: number | null;
}

/** Successes and what they wrote, by datum id: a datum that comes back after its death is done already. */
export class ResultStore extends Store {
  readonly #salt: () => string;

  /** `salt`: results of another one do not count. */
  constructor(sql: Sql, salt: () => string) {
    super(sql);
    this.#salt = salt;
  }

  /** Under the present salt, unless another one is asked for. */
  has(id: string, salt: string = this.#salt()): boolean {
    return this.sql.has`SELECT 1 FROM results WHERE id = ${id} AND salt = ${salt}`;
  }

  record({ id, job, exitCode, millis, upload, outputs, code, now }: Result): void {
    const salt = this.#salt();
    this.sql.run`
      INSERT OR REPLACE INTO results (id, salt, job, exit_code, millis, upload, finished_at, code)
      VALUES (${id}, ${salt}, ${job}, ${exitCode}, ${millis}, ${upload}, ${now}, ${code})`;
    for (const { path, digest, size } of outputs) {
      this.sql.run`
        INSERT OR REPLACE INTO outputs (id, salt, path, digest, size)
        VALUES (${id}, ${salt}, ${path}, ${digest}, ${size})`;
    }
  }

  origin({ id, salt }: ResultKey): ResultOrigin | undefined {
    return this.sql.first<ResultOrigin>`
      SELECT job, exit_code AS exitCode, code FROM results WHERE id = ${id} AND salt = ${salt}`;
  }

  /** Forgets a result whose contents are gone. */
  drop(id: string): void {
    this.sql.run`DELETE FROM outputs WHERE id = ${id} AND salt = ${this.#salt()}`;
    this.sql.run`DELETE FROM results WHERE id = ${id} AND salt = ${this.#salt()}`;
  }

  /** What a result wrote, by path, from one on. */
  outputs({ id, salt }: ResultKey, { from, limit }: { from: string; limit: number }): OutputRow[] {
    return this.sql.all<OutputRow>`
      SELECT path, digest, size FROM outputs
      WHERE id = ${id} AND salt = ${salt} AND path >= ${from} ORDER BY path LIMIT ${limit}`;
  }

  /** Forgets the results of other salts among the next `limit` after a place; returns the place after them, null at the end. */
  trim(after: ResultKey, limit: number): ResultKey | null {
    const salt = this.#salt();
    const keys = this.sql.all<ResultKey>`
      SELECT id, salt FROM results WHERE (id, salt) > (${after.id}, ${after.salt}) ORDER BY id, salt LIMIT ${limit}`;
    for (const stale of keys.filter((key) => key.salt !== salt)) {
      this.sql.run`DELETE FROM outputs WHERE id = ${stale.id} AND salt = ${stale.salt}`;
      this.sql.run`DELETE FROM results WHERE id = ${stale.id} AND salt = ${stale.salt}`;
    }
    return keys.length < limit ? null : (keys.at(-1) ?? null);
  }
}

/** A result's place among all of them. */
export interface ResultKey {
  readonly id: string;
  readonly salt: string;
}
