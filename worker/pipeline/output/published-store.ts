import type { ContentId } from "../../../protocol/content.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { ResultKey } from "../attempts/result-store.ts";
import type { DatumRow } from "../inputs/datum-store.ts";

/** What a datum's result wrote to a path. */
export interface Written extends DatumRow, ContentId {
  readonly path: string;
}

export interface MakerRow extends DatumRow {
  /** The number of what ran it; null: its result was gone by then. */
  readonly code: number | null;
}

type Place = Pick<Written, "path" | "key">;

/** A row of the history of outputs. */
export interface MadePlace extends Place {
  /** 0: of what is published now, by path and key; the rows whose end is known come behind those. */
  readonly born: number;
}

/** A row of that history whose end is known. */
export interface DeadPlace extends MadePlace {
  readonly died: number;
}

interface MadeRow extends MakerRow, Place {
  readonly born: number;
  readonly died: number | null;
}

/**
 * What each datum wrote to each path of the output branch, for the last committed job. Which datums those were is kept
 * for every job (MakerStore), by births and deaths. So any output commit leads to its datums and their input files: `sluice
 * commit inspect`. With them stands the number of the build that ran (CodeStore), which outlives the result.
 */
export class PublishedStore extends Store {
  readonly #makers: MakerStore;

  constructor(sql: Sql, makers: MakerStore) {
    super(sql);
    this.#makers = makers;
  }

  /** Paths that a datum wrote, from one on, in byte order. */
  ofKey(key: string, { from, limit }: { from: string; limit: number }): string[] {
    return this.sql.all<{ path: string }>`
      SELECT path FROM published INDEXED BY published_by_key
      WHERE key = ${key} AND path >= ${from} ORDER BY path LIMIT ${limit}`.map(({ path }) => path);
  }

  /** Some of what datums wrote to a path that is not empty, in order of their keys. */
  contents(path: string, limit: number): ContentId[] {
    return this.sql.all<ContentId>`
      SELECT digest, size FROM published WHERE path = ${path} AND size > 0 ORDER BY key LIMIT ${limit}`;
  }

  /** By the job whose commit is being recorded. */
  add({ path, key, id, salt, digest, size }: Written): void {
    const before = this.#owner({ path, key });
    if (before?.id === id && before.salt === salt) {
      this.sql.run`
        UPDATE published SET digest = ${digest}, size = ${size} WHERE path = ${path} AND key = ${key}`;
      return;
    }
    if (before) this.#makers.end({ path, key }, this.#job());
    this.sql.run`
      INSERT OR REPLACE INTO published (path, key, id, salt, digest, size, born, code)
      VALUES (${path}, ${key}, ${id}, ${salt}, ${digest}, ${size}, ${this.#job()},
        (SELECT code FROM results WHERE id = ${id} AND salt = ${salt}))`;
  }

  /** By the job whose commit is being recorded. */
  remove({ path, key }: Place): void {
    this.#makers.end({ path, key }, this.#job());
    this.sql.run`DELETE FROM published WHERE path = ${path} AND key = ${key}`;
  }

  at(path: string): Written[] {
    return this.sql.all<Written>`
      SELECT path, key, id, salt, digest, size FROM published WHERE path = ${path} ORDER BY key`;
  }

  /**
   * What was published at a path was erased. If another content is there now, the first of the datums answers for it, so that
   * it goes when that datum does.
   */
  replace(path: string, { now, committed }: { now: ContentId | null; committed: number }): void {
    const present = this.at(path);
    const [first] = present;
    for (const { key } of present) this.#makers.end({ path, key }, committed + 1);
    this.sql.run`DELETE FROM published WHERE path = ${path}`;
    if (!first || !now) return;
    const { key, id, salt } = first;
    this.sql.run`
      INSERT INTO published (path, key, id, salt, digest, size)
      VALUES (${path}, ${key}, ${id}, ${salt}, ${now.digest}, ${now.size})`;
  }

  #owner({ path, key }: Place): ResultKey | undefined {
    return this.sql.first<ResultKey>`SELECT id, salt FROM published WHERE path = ${path} AND key = ${key}`;
  }

  /** The oldest one that has not ended. */
  #job(): number {
    return this.sql.number`
    SELECT n FROM jobs WHERE finishedAt IS NULL ORDER BY n LIMIT 1`;
  }
}

/**
 * Which datums each path of the output branch came from, at any job: what is published, and in the table `made` what was and
 * is no more. It grows as the history of the output branch does, and is kept as long (work/trim/trim.ts).
 */
export class MakerStore extends Store {
  /** From a job on, the path is not from this datum any more; does nothing if it was not before. */
  end({ path, key }: Place, job: number): void {
    this.sql.run`
      INSERT OR REPLACE INTO made (path, born, key, id, salt, died, code)
      SELECT path, born, key, id, salt, ${job}, code FROM published
      WHERE path = ${path} AND key = ${key} AND born IS NOT NULL`;
  }

  /** Nothing tells what made a path that no commit has any more. What makes it now stays. */
  forget(path: string): void {
    this.sql.run`DELETE FROM made WHERE path = ${path}`;
  }

  /** The datums that a path came from at a job, in order of their keys, after one; from the first for null. */
  of(path: string, { job, after, limit }: { job: number; after: string | null; limit: number }): MakerRow[] {
    return this.sql.all<MakerRow>`
      SELECT id, salt, key, code FROM (
        SELECT id, salt, key, code, born FROM published WHERE path = ${path} AND born IS NOT NULL
        UNION ALL
        SELECT id, salt, key, code, born FROM made INDEXED BY made_by_died WHERE path = ${path} AND died > ${job})
      WHERE born <= ${job} AND (${after} IS NULL OR key > ${after}) ORDER BY key LIMIT ${limit}`;
  }

  /**
   * The paths that a job has from a result, among the next `scan` rows behind a place, which is their last row. There is no
   * index for that question, since only people ask it: each call reads a bounded part of the table.
   */
  pathsOf(
    { id, salt }: ResultKey,
    { job, after, scan }: { job: number; after: MadePlace; scan: number },
  ): { paths: string[]; next: MadePlace | null } {
    const { rows, next } = this.page(after, scan);
    const own = rows.filter(
      (row) => row.id === id && row.salt === salt && row.born <= job && (row.died === null || row.died > job),
    );
    return { paths: [...new Set(own.map(({ path }) => path))], next };
  }

  /**
   * Forgets rows among the next ones, by the job with which they died, up to `until`, that no kept commit needs: none of a
   * job that had them. Returns the place to go on after, null at the end.
   */
  free(after: DeadPlace, { until, limit }: { until: number; limit: number }): DeadPlace | null {
    const rows = this.sql.all<DeadPlace & { needed: 0 | 1 }>`
      SELECT died, path, born, key,
        EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_kept
          WHERE outputCommit IS NOT NULL AND released = 0 AND n >= made.born AND n < made.died) AS needed
      FROM made INDEXED BY made_by_end
      WHERE (died, path, born, key) > (${after.died}, ${after.path}, ${after.born}, ${after.key})
        AND died <= ${until}
      ORDER BY died, path, born, key LIMIT ${limit}`;
    for (const { path, born, key, needed } of rows) {
      if (!needed) this.sql.run`DELETE FROM made WHERE path = ${path} AND born = ${born} AND key = ${key}`;
    }
    const last = rows.length < limit ? undefined : rows.at(-1);
    return last ? { died: last.died, path: last.path, born: last.born, key: last.key } : null;
  }

  /**
   * The next rows behind a place, and the last of them, null at the end. What is published comes first: a row that ends
   * between two pages is behind it then, and may come twice, but is never missed.
   */
  page(
    after: MadePlace,
    limit: number,
  ): { readonly rows: readonly MadeRow[]; readonly next: MadePlace | null } {
    const present = after.born > 0 ? [] : this.#published(after, limit);
    const lastPresent = present.at(-1);
    if (lastPresent && present.length === limit) {
      return { rows: present, next: { path: lastPresent.path, born: 0, key: lastPresent.key } };
    }
    const place = after.born > 0 ? after : { path: "", born: 0, key: "" };
    const past = this.#ended(place, limit - present.length);
    const last = present.length + past.length < limit ? undefined : past.at(-1);
    return {
      rows: [...present, ...past],
      next: last ? { path: last.path, born: last.born, key: last.key } : null,
    };
  }

  #published({ path, key }: Place, limit: number): MadeRow[] {
    return this.sql.all<MadeRow>`
      SELECT path, key, id, salt, code, born, NULL AS died FROM published
      WHERE (path, key) > (${path}, ${key}) AND born IS NOT NULL ORDER BY path, key LIMIT ${limit}`;
  }

  #ended({ path, born, key }: MadePlace, limit: number): MadeRow[] {
    return this.sql.all<MadeRow>`
      SELECT path, key, id, salt, code, born, died FROM made
      WHERE (path, born, key) > (${path}, ${born}, ${key}) ORDER BY path, born, key LIMIT ${limit}`;
  }
}
