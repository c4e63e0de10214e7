import type { ContentId } from "../../../protocol/content.ts";
import type { Code } from "../../../protocol/pipelines.ts";
import type { Output } from "../../../protocol/runner.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { GivenUp } from "../inputs/erasure-store.ts";
import type { PipelineStore } from "../lifecycle/pipeline-store.ts";
import type { GivenUpStore } from "./upload-store.ts";

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
  /** The number of what made it (CodeStore). */
  readonly code: number;
  readonly now: number;
}

/** Where a result comes from. */
export interface ResultOrigin {
  readonly job: number;
  readonly exitCode: number;
  readonly code: number;
}

/** Of (?1 upload): `r`, the results that came by it. */
const OF_UPLOAD = `
  result_uploads AS u CROSS JOIN json_each(u.results) AS named ON u.upload = ?1
  CROSS JOIN results AS r ON r.id = named.value ->> 0 AND r.salt = named.value ->> 1 AND r.upload = ?1`;

/**
 * Successes and what they wrote, by datum id: a datum that comes back after its death is done already. The first output stands
 * in the row of the result, since most have one.
 */
export class ResultStore extends Store {
  readonly #pipeline: PipelineStore;
  readonly #givenUp: GivenUpStore;
  /** Ids and salts of what was recorded and is on no list yet. */
  readonly #byUpload = new Map<string, (readonly [id: string, salt: string])[]>();

  constructor(sql: Sql, { pipeline, givenUp }: { pipeline: PipelineStore; givenUp: GivenUpStore }) {
    super(sql);
    this.#pipeline = pipeline;
    this.#givenUp = givenUp;
  }

  /** Under the present salt, unless another one is asked for. */
  has(id: string, salt: string = this.#pipeline.salt()): boolean {
    return this.sql.has`SELECT 1 FROM results WHERE id = ${id} AND salt = ${salt}`;
  }

  /** Within `recordTogether`. */
  record({ id, job, exitCode, millis, upload, outputs, code, now }: Result): void {
    const salt = this.#pipeline.salt();
    const [first, ...others] = outputs;
    this.sql.run`
      INSERT OR REPLACE INTO results (id, salt, job, exitCode, millis, upload, finishedAt, code, path, digest, size)
      VALUES (${id}, ${salt}, ${job}, ${exitCode}, ${millis}, ${upload}, ${now}, ${code},
        ${first?.path ?? null}, ${first?.digest ?? null}, ${first?.size ?? null})`;
    if (upload !== null) this.#byUpload.set(upload, [...(this.#byUpload.get(upload) ?? []), [id, salt]]);
    for (const { path, digest, size } of others) {
      this.sql.run`
        INSERT OR REPLACE INTO outputs (id, salt, path, digest, size)
        VALUES (${id}, ${salt}, ${path}, ${digest}, ${size})`;
    }
  }

  /** Of results that are recorded meanwhile, the list of those that came by an upload is written once. */
  recordTogether(work: () => void): void {
    this.#byUpload.clear();
    work();
    for (const [upload, results] of this.#byUpload) {
      this.sql.run`
        INSERT INTO result_uploads (upload, number, results)
        SELECT ${upload}, ifnull(max(number), 0) + 1, ${JSON.stringify(results)}
        FROM result_uploads WHERE upload = ${upload}`;
    }
  }

  /** No result names the upload any more. */
  forgetUpload(upload: string): void {
    this.sql.run`DELETE FROM result_uploads WHERE upload = ${upload}`;
  }

  origin({ id, salt }: ResultKey): ResultOrigin | undefined {
    return this.sql.first<ResultOrigin>`
      SELECT job, exitCode, code FROM results WHERE id = ${id} AND salt = ${salt}`;
  }

  /** Forgets a result whose contents are gone. */
  drop(id: string): void {
    this.#remove({ id, salt: this.#pipeline.salt() });
  }

  /** A result has what it wrote to a path no more. Returns the content, and the upload that keeps it if one does. */
  dropOutput({ id, salt }: ResultKey, path: string): GivenUp | undefined {
    const other = this.sql.first<ContentId>`
      DELETE FROM outputs WHERE id = ${id} AND salt = ${salt} AND path = ${path} RETURNING digest, size`;
    const result = this.sql.first<ContentId & { path: string | null; upload: string | null }>`
      SELECT path, digest, size, upload FROM results WHERE id = ${id} AND salt = ${salt}`;
    const isFirst = result?.path === path;
    if (isFirst) {
      this.sql.run`
        UPDATE results SET path = NULL, digest = NULL, size = NULL WHERE id = ${id} AND salt = ${salt}`;
    }
    const output = other ?? (isFirst ? { digest: result.digest, size: result.size } : undefined);
    return output && result?.upload ? { ...output, upload: result.upload } : undefined;
  }

  /** Whether a result has a content by an upload: several results may have come by one. */
  names({ upload, digest, size }: GivenUp): boolean {
    return (
      this.sql.query(
        `SELECT 1 FROM ${OF_UPLOAD} WHERE (r.digest = ?2 AND r.size = ?3 OR EXISTS (SELECT 1 FROM outputs AS o
          WHERE o.id = r.id AND o.salt = r.salt AND o.digest = ?2 AND o.size = ?3)) LIMIT 1`,
        [upload, digest, size],
      ).length > 0
    );
  }

  /** What a result wrote, by path, from one on. */
  outputs({ id, salt }: ResultKey, { from, limit }: { from: string; limit: number }): OutputRow[] {
    return this.sql.all<OutputRow>`
      SELECT path, digest, size FROM results WHERE id = ${id} AND salt = ${salt} AND path >= ${from}
      UNION ALL
      SELECT path, digest, size FROM outputs
      WHERE id = ${id} AND salt = ${salt} AND path >= ${from} ORDER BY path LIMIT ${limit}`;
  }

  /** Whether a result names an upload. */
  hasUpload(upload: string): boolean {
    return this.sql.query(`SELECT 1 FROM ${OF_UPLOAD} LIMIT 1`, [upload]).length > 0;
  }

  /** What results that name an upload wrote, each content once; as many as `limit`. */
  contentsOf(upload: string, limit: number): ContentId[] {
    return this.sql.query<ContentId>(
      `SELECT r.digest AS digest, r.size AS size FROM ${OF_UPLOAD} WHERE r.path IS NOT NULL
       UNION
       SELECT o.digest, o.size FROM ${OF_UPLOAD}
       CROSS JOIN outputs AS o ON o.id = r.id AND o.salt = r.salt LIMIT ?2`,
      [upload, limit],
    );
  }

  /**
   * Forgets the results of other salts among the next `limit` after a place, some of them if they wrote much; returns the
   * place to go on after, null at the end.
   */
  trim(after: ResultKey, limit: number): ResultKey | null {
    const salt = this.#pipeline.salt();
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
  free(after: Ended, { until, limit }: { until: number; limit: number }): Ended | null {
    const rows = this.sql.all<Ended & { job: number; lives: 0 | 1; needed: 0 | 1 }>`
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

/** A result of which a datum died, and with which job; also a place among those. */
export interface Ended extends ResultKey {
  readonly died: number;
}

/** A result's place among all of them. */
export interface ResultKey {
  readonly id: string;
  readonly salt: string;
}

/** Most that are kept in memory, each way. */
const MAX_KNOWN = 1000;

/** What ran datums, by number: the image or that there was none, the version of the specification, the node. */
export class CodeStore extends Store {
  readonly #numbers = new Map<string, number>();
  readonly #codes = new Map<number, Code>();
  /** While those are looked for that nothing names: what was found to be named, and what got a result since. */
  #named: Set<number> | undefined;

  /** The number of a code, which it gets with its first result. */
  numberOf(code: Code): number {
    const number = this.#numberOf(code);
    this.#named?.add(number);
    return number;
  }

  #numberOf(code: Code): number {
    const name = JSON.stringify([code.version, code.node, code.executor, code.image]);
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.#find(code) ?? this.#add(code);
    if (this.#numbers.size >= MAX_KNOWN) this.#numbers.clear();
    this.#numbers.set(name, number);
    return number;
  }

  /** Null for null, which is the code of what no result tells of. */
  get(number: number | null): Code | null {
    if (number === null) return null;
    const known = this.#codes.get(number);
    if (known) return known;
    const row = this.sql.first<{ version: number; node: string; executor: string; image: string }>`
      SELECT version, node, executor, image FROM codes WHERE number = ${number}`;
    if (!row) return null;
    const { version, node, executor, image } = row;
    const code = { version, node: node || null, executor, image: image || null };
    if (this.#codes.size >= MAX_KNOWN) this.#codes.clear();
    this.#codes.set(number, code);
    return code;
  }

  /** The number of the newest one; 0 if there is none. */
  newest(): number {
    return this.sql.number`SELECT max(number) FROM codes`;
  }

  count(): number {
    return this.sql.number`SELECT count(*) FROM codes`;
  }

  /** From now on it is noted what is named: what the caller adds, and what gets a result. */
  beginSweep(): { add(numbers: readonly number[]): void } {
    const named = new Set<number>();
    this.#named = named;
    return {
      add(numbers) {
        for (const number of numbers) named.add(number);
      },
    };
  }

  /** Forgets some of those up to a number that nothing names. Returns whether there may be more. */
  removeUnnamed(upTo: number, limit: number): boolean {
    const named = this.#named;
    if (!named) return false;
    const gone = this.sql.all<{ number: number }>`
      SELECT number FROM codes WHERE number <= ${upTo}
        AND number NOT IN (SELECT value FROM json_each(${JSON.stringify([...named])})) LIMIT ${limit}`;
    for (const { number } of gone) this.sql.run`DELETE FROM codes WHERE number = ${number}`;
    if (gone.length > 0) this.forget();
    return gone.length === limit;
  }

  endSweep(): void {
    this.#named = undefined;
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#numbers.clear();
    this.#codes.clear();
  }

  #find({ version, node, executor, image }: Code): number | undefined {
    return this.sql.first<{ number: number }>`
      SELECT number FROM codes WHERE version = ${version} AND node = ${node ?? ""}
        AND executor = ${executor} AND image = ${image ?? ""}`?.number;
  }

  #add(code: Code): number {
    const { version, node, executor, image } = code;
    return this.sql.number`
      INSERT INTO codes (version, node, executor, image)
      VALUES (${version}, ${node ?? ""}, ${executor}, ${image ?? ""}) RETURNING number`;
  }
}
