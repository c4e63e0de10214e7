import type { ContentId } from "../../../protocol/content.ts";
import type { Output } from "../../../protocol/runner.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { GivenUp } from "../inputs/erasure-store.ts";
import type { GivenUpStore } from "./given-up-store.ts";

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
  /** The number of what ran it. */
  readonly code: number;
}

/** Successes and what they wrote, by datum id: a datum that comes back after its death is done already. */
export class ResultStore extends Store {
  readonly #salt: () => string;
  readonly #givenUp: GivenUpStore;

  /** `salt`: results of another one do not count. */
  constructor(sql: Sql, { salt, givenUp }: { salt: () => string; givenUp: GivenUpStore }) {
    super(sql);
    this.#salt = salt;
    this.#givenUp = givenUp;
  }

  /** Under the present salt, unless another one is asked for. */
  has(id: string, salt: string = this.#salt()): boolean {
    return this.sql.has`SELECT 1 FROM results WHERE id = ${id} AND salt = ${salt}`;
  }

  record({ id, job, exitCode, millis, upload, outputs, code, now }: Result): void {
    const salt = this.#salt();
    this.sql.run`
      INSERT OR REPLACE INTO results (id, salt, job, exitCode, millis, upload, finishedAt, code)
      VALUES (${id}, ${salt}, ${job}, ${exitCode}, ${millis}, ${upload}, ${now}, ${code})`;
    for (const { path, digest, size } of outputs) {
      this.sql.run`
        INSERT OR REPLACE INTO outputs (id, salt, path, digest, size)
        VALUES (${id}, ${salt}, ${path}, ${digest}, ${size})`;
    }
  }

  origin({ id, salt }: ResultKey): ResultOrigin | undefined {
    return this.sql.first<ResultOrigin>`
      SELECT job, exitCode, code FROM results WHERE id = ${id} AND salt = ${salt}`;
  }

  /** Forgets a result whose contents are gone. */
  drop(id: string): void {
    this.#remove({ id, salt: this.#salt() });
  }

  /** A result has what it wrote to a path no more. Returns the content, and the upload that keeps it if one does. */
  dropOutput({ id, salt }: ResultKey, path: string): GivenUp | undefined {
    const output = this.sql.first<ContentId>`
      DELETE FROM outputs WHERE id = ${id} AND salt = ${salt} AND path = ${path} RETURNING digest, size`;
    const upload = this.sql.first<{ upload: string | null }>`
      SELECT upload FROM results WHERE id = ${id} AND salt = ${salt}`?.upload;
    return output && upload ? { ...output, upload } : undefined;
  }

  /** Whether a result has a content by an upload: several results may have come by one. */
  names({ upload, digest, size }: GivenUp): boolean {
    return this.sql.has`
      SELECT 1 FROM results AS r INDEXED BY results_by_upload CROSS JOIN outputs AS o ON o.id = r.id AND o.salt = r.salt
      WHERE r.upload = ${upload} AND o.digest = ${digest} AND o.size = ${size} LIMIT 1`;
  }

  /** What a result wrote, by path, from one on. */
  outputs({ id, salt }: ResultKey, { from, limit }: { from: string; limit: number }): OutputRow[] {
    return this.sql.all<OutputRow>`
      SELECT path, digest, size FROM outputs
      WHERE id = ${id} AND salt = ${salt} AND path >= ${from} ORDER BY path LIMIT ${limit}`;
  }

  /** What results that name an upload wrote, each content once; as many as `limit`. */
  contentsOf(upload: string, limit: number): ContentId[] {
    return this.sql.all<ContentId>`
      SELECT DISTINCT o.digest, o.size
      FROM results AS r INDEXED BY results_by_upload CROSS JOIN outputs AS o ON o.id = r.id AND o.salt = r.salt
      WHERE r.upload = ${upload} LIMIT ${limit}`;
  }

  /**
   * Forgets the results of other salts among the next `limit` after a place, some of them if they wrote much; returns the
   * place to go on after, null at the end.
   */
  trim(after: ResultKey, limit: number): ResultKey | null {
    const salt = this.#salt();
    const keys = this.sql.all<ResultKey>`
      SELECT id, salt FROM results WHERE (id, salt) > (${after.id}, ${after.salt}) ORDER BY id, salt LIMIT ${limit}`;
    let room = ROWS_AT_ONCE;
    for (const key of keys) {
      if (key.salt !== salt) room -= this.#remove(key);
      if (room <= 0) return key;
    }
    return keys.length < limit ? null : (keys.at(-1) ?? null);
  }

  /** Some datums died that had these results: notes the job with which the last one went, unless another one has them. */
  outlive(dead: readonly Ended[]): void {
    // One row each: an UPDATE that meets several takes any of them.
    const last = new Map<string, Ended>();
    for (const each of dead) {
      const name = `${each.id} ${each.salt}`;
      const other = last.get(name);
      if (!other || other.died < each.died) last.set(name, each);
    }
    const rows = JSON.stringify([...last.values()].map(({ id, salt, died }) => [id, salt, died]));
    this.sql.run`
      UPDATE results SET died = max(ifnull(died, 0), dead.value ->> 2) FROM json_each(${rows}) AS dead
      WHERE results.id = dead.value ->> 0 AND results.salt = dead.value ->> 1
        AND NOT EXISTS (SELECT 1 FROM datums WHERE datums.id = results.id)`;
  }

  /**
   * Forgets results among the next ones, by the job with which their last datum went, up to `until`, that no kept commit
   * needs: none of a job that had such a datum. Returns the place to go on after, null at the end.
   */
  free(after: EndedPlace, { until, limit }: { until: number; limit: number }): EndedPlace | null {
    const rows = this.sql.all<EndedPlace & { job: number; lives: 0 | 1; needed: 0 | 1 }>`
      SELECT id, salt, died, job,
        EXISTS (SELECT 1 FROM datums WHERE datums.id = results.id) AS lives,
        EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_kept
          WHERE outputCommit IS NOT NULL AND released = 0 AND n >= results.job AND n < results.died) AS needed
      FROM results INDEXED BY results_by_end
      WHERE died IS NOT NULL AND (died, id, salt) > (${after.died}, ${after.id}, ${after.salt})
        AND died <= ${until}
      ORDER BY died, id, salt LIMIT ${limit}`;
    let room = ROWS_AT_ONCE;
    for (const { id, salt, died, lives, needed } of rows) {
      // The datum came back: the result has no end any more.
      if (lives) this.sql.run`UPDATE results SET died = NULL WHERE id = ${id} AND salt = ${salt}`;
      else if (!needed) room -= this.#remove({ id, salt });
      if (room <= 0) return { id, salt, died };
    }
    const last = rows.length < limit ? undefined : rows.at(-1);
    return last ? { id: last.id, salt: last.salt, died: last.died } : null;
  }

  /** The codes of the next `limit` results after a place, and the place to go on after, null at the end. */
  codes(after: ResultKey, limit: number): { readonly codes: number[]; readonly next: ResultKey | null } {
    const rows = this.sql.all<ResultKey & { code: number }>`
      SELECT id, salt, code FROM results WHERE (id, salt) > (${after.id}, ${after.salt}) ORDER BY id, salt LIMIT ${limit}`;
    const last = rows.length < limit ? undefined : rows.at(-1);
    return {
      codes: rows.map(({ code }) => code),
      next: last ? { id: last.id, salt: last.salt } : null,
    };
  }

  /** Returns how many rows went. A result has MAX_OUTPUTS_PER_DATUM outputs at most, which one transaction removes. */
  #remove({ id, salt }: ResultKey): number {
    const result = this.sql.first<{ upload: string | null }>`
      DELETE FROM results WHERE id = ${id} AND salt = ${salt} RETURNING upload`;
    if (!result) return 0;
    this.#givenUp.add(result.upload);
    return 1 + this.sql.execute("DELETE FROM outputs WHERE id = ? AND salt = ?", [id, salt]).rowsWritten;
  }
}

/** Rows that one transaction of some milliseconds removes. */
const ROWS_AT_ONCE = 3000;

/** A result of which a datum died, and with which job. */
export interface Ended extends ResultKey {
  readonly died: number;
}

/** A place among results whose datums are gone. */
export type EndedPlace = Ended;

/** A result's place among all of them. */
export interface ResultKey {
  readonly id: string;
  readonly salt: string;
}
