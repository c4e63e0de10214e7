import type { ContentId } from "../../../protocol/content.ts";
import type { Operation } from "../../branch/contract/files.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { GivenUpStore } from "../attempts/upload-store.ts";
import type { ChangePlace } from "../inputs/datum-store.ts";
import type { GivenUp } from "../inputs/erasure-store.ts";
import type { Written } from "./published-store.ts";

/** A place in the walk over what died or was born: that datum, from that path of it on. */
export interface WalkPlace extends ChangePlace {
  readonly path: string;
}

/**
 * What is to be done next to end the oldest job, all of whose datums have a result: advance.ts tells of each step. The
 * names are stored: at `publish` a commit is recorded, at `push` egress is waited for.
 */
export type EndingStep =
  | ErrorsStep
  | { readonly step: "clear" | "publish" | "forget" | "push" }
  | { readonly step: "plan"; readonly after?: string }
  | { readonly step: "commit"; readonly staged: boolean }
  | ({ readonly step: "died" | "born" } & WalkPlace)
  | { readonly step: "stage" | "list"; readonly after: string };

/**
 * The steps about bad datums (bad-datums.ts). `after`: a datum's id at `cured` and `errors-stage`, a datum's key at `noted`,
 * null before the first. `hasFiles`: whether the errors branch has what is recorded.
 */
type ErrorsStep =
  | { readonly step: "cured" | "errors-stage"; readonly after: string }
  | { readonly step: "noted"; readonly after: string | null }
  | { readonly step: "errors-commit"; readonly staged: boolean }
  | { readonly step: "errors-record"; readonly hasFiles: boolean };

export class EndingStore extends Store {
  /** Of the job that last began to end; undefined if nothing is left of it. */
  get(): { job: number; at: EndingStep } | undefined {
    const row = this.sql.first<{ job: number; step: string }>`SELECT job, step FROM ending WHERE one = 1`;
    return row && { job: row.job, at: JSON.parse(row.step) };
  }

  set(job: number, at: EndingStep): void {
    this.sql.run`INSERT OR REPLACE INTO ending (one, job, step) VALUES (1, ${job}, ${JSON.stringify(at)})`;
  }

  /** Nothing is left of it. */
  remove(): void {
    this.sql.run`DELETE FROM ending`;
  }
}

/** What a datum writes to a path, or that it writes there no more: then `id` is null, as is the rest. */
export type Changed = Written | { readonly path: string; readonly key: string; readonly id: null };

/** What a datum writes to a path, by its key. */
export type Part = ContentId & { readonly key: string };

/**
 * What the output commit that is being made changes of `published`. The two together, a row here before one there,
 * are what the datums of the oldest job write.
 */
export class ChangedStore extends Store {
  /** The last word on a path and key counts. */
  set({ path, key, id, salt, digest, size }: Written): void {
    this.sql.run`
      INSERT OR REPLACE INTO changed (path, key, id, salt, digest, size)
      VALUES (${path}, ${key}, ${id}, ${salt}, ${digest}, ${size})`;
  }

  /** The datum is gone, or another one is in its place. */
  drop({ path, key }: Pick<Written, "path" | "key">): void {
    this.sql.run`INSERT OR REPLACE INTO changed (path, key) VALUES (${path}, ${key})`;
  }

  hasAtMost(rows: number): boolean {
    return this.sql.all`SELECT 1 FROM changed LIMIT ${rows + 1}`.length <= rows;
  }

  /** The first changed path after one; from the first for null. */
  nextPath(after: string | null): string | undefined {
    return this.sql.first<{ path: string }>`
      SELECT path FROM changed WHERE path > ${after ?? ""} ORDER BY path LIMIT 1`?.path;
  }

  /**
   * Whether the commit puts to a path what one datum writes there: it alone, and something else than before. That is the
   * operation then, which is not written down again.
   */
  isPlain(path: string): boolean {
    return this.sql.has`
      SELECT 1 FROM changed AS c WHERE path = ${path} AND id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM changed AS other WHERE other.path = c.path AND other.key <> c.key)
        AND NOT EXISTS (SELECT 1 FROM published AS p
          WHERE p.path = c.path AND (p.key <> c.key OR (p.digest = c.digest AND p.size = c.size)))`;
  }

  /** What the job's datums write to a path that is not empty, in order of their keys, after one; from the first for null. */
  parts(path: string, { after, limit }: { after: string | null; limit: number }): Part[] {
    return this.#written(path, { after, limit, leastSize: 1 });
  }

  /** The first that any of the job's datums writes to a path. */
  firstPart(path: string): Part | undefined {
    return this.#written(path, { after: null, limit: 1, leastSize: 0 })[0];
  }

  /** The first path below a directory, named without its slash, that a datum of the job writes, and its datum's key. */
  firstBelow(directory: string): string | undefined {
    const [from, to] = [`${directory}/`, `${directory}0`];
    return this.sql.first<{ key: string }>`
      SELECT path, key FROM changed WHERE path > ${from} AND path < ${to} AND id IS NOT NULL
      UNION ALL
      SELECT path, key FROM published AS p WHERE path > ${from} AND path < ${to}
        AND NOT EXISTS (SELECT 1 FROM changed AS c WHERE c.path = p.path AND c.key = p.key)
      ORDER BY path, key LIMIT 1`?.key;
  }

  /** Takes some out, in order. */
  take(limit: number): Changed[] {
    const rows = this.sql.all<Changed>`
      SELECT path, key, id, salt, digest, size FROM changed ORDER BY path, key LIMIT ${limit}`;
    for (const { path, key } of rows) {
      this.sql.run`DELETE FROM changed WHERE path = ${path} AND key = ${key}`;
    }
    return rows;
  }

  #written(
    path: string,
    { after, limit, leastSize }: { after: string | null; limit: number; leastSize: 0 | 1 },
  ): Part[] {
    // The key of the root alone is the empty text.
    return this.sql.all<Part>`
      SELECT key, digest, size FROM changed
      WHERE path = ${path} AND key >= ${after ?? ""} AND (${after} IS NULL OR key > ${after})
        AND id IS NOT NULL AND size >= ${leastSize}
      UNION ALL
      SELECT key, digest, size FROM published AS p
      WHERE path = ${path} AND key >= ${after ?? ""} AND (${after} IS NULL OR key > ${after}) AND size >= ${leastSize}
        AND NOT EXISTS (SELECT 1 FROM changed AS c WHERE c.path = p.path AND c.key = p.key)
      ORDER BY key LIMIT ${limit}`;
  }
}

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

/** Of each changed path what is done there: what is written down, or else what its only datum writes. */
const PLANNED = `
  SELECT c.path AS path, ifnull(o.state, 'put') AS state,
    iif(o.path IS NULL, c.digest, o.digest) AS digest, iif(o.path IS NULL, c.size, o.size) AS size
  FROM changed AS c LEFT JOIN operations AS o ON o.path = c.path
  WHERE c.path > ? AND o.state IS NOT 'same' GROUP BY c.path ORDER BY c.path LIMIT ?`;

/** What the output commit that is being made does to each path that it changes, and that is not plain (`isPlain`). */
export class OperationStore extends Store {
  set(path: string, operation: PlannedOperation): void {
    const put = operation.state === "put" ? operation : undefined;
    this.sql.run`
      INSERT OR REPLACE INTO operations (path, state, digest, size, merge)
      VALUES (${path}, ${operation.state}, ${put?.content.digest ?? null}, ${put?.content.size ?? null},
        ${put?.merge ?? null})`;
  }

  /** How many the branch is to be told of, counted up to `limit`. */
  count(limit: number): number {
    const [row] = this.sql.query<{ count: number }>(`SELECT count(*) AS count FROM (${PLANNED})`, [
      "",
      limit,
    ]);
    return row?.count ?? 0;
  }

  /** The first path after one that waits for a merge; from the first for null. */
  nextWaiting(after: string | null): string | undefined {
    return this.sql.first<{ path: string }>`
      SELECT path FROM operations INDEXED BY operations_waiting
      WHERE state = 'waits' AND path > ${after ?? ""} ORDER BY path LIMIT 1`?.path;
  }

  /** The merge that the content comes from which is put to a path, if it is one. */
  mergeOf(path: string): string | null {
    return (
      this.sql.first<{ merge: string | null }>`
        SELECT merge FROM operations WHERE path = ${path} AND state = 'put'`?.merge ?? null
    );
  }

  /** What the branch is to be told, after a path. */
  page({ after, limit }: { after: string; limit: number }): { path: string; operation: Operation }[] {
    return this.sql.query<Row>(PLANNED, [after, limit]).map((row) => ({
      path: row.path,
      operation: operationOf(row),
    }));
  }

  /** What is written down of a path; null: nothing is done there. */
  at(path: string): Operation | null | undefined {
    const row = this.sql.first<Row>`SELECT path, state, digest, size FROM operations WHERE path = ${path}`;
    return row && (row.state === "same" ? null : operationOf(row));
  }

  /** Forgets some. Returns whether there may be more. */
  clear(limit: number): boolean {
    const rows = this.sql.all`
      DELETE FROM operations WHERE path IN (SELECT path FROM operations LIMIT ${limit}) RETURNING 1`;
    return rows.length === limit;
  }
}

function operationOf({ path, digest, size }: Row): Operation {
  return digest === null || size === null ? { delete: path } : { put: path, digest, size };
}

/** A datum that the output lacks. */
interface BadDatum {
  readonly id: string;
  readonly key: string;
  /** What its file in the errors branch says of the failure, hashed; null: it has no file yet. */
  readonly fileHash: string | null;
}

/** The datums that the output lacks, and what the errors branch tells of each. */
export class BadDatumStore extends Store {
  any(): boolean {
    return this.sql.has`SELECT 1 FROM bad_datums LIMIT 1`;
  }

  get(id: string): BadDatum | undefined {
    return this.sql.first<BadDatum>`SELECT id, key, fileHash FROM bad_datums WHERE id = ${id}`;
  }

  /** In order of their ids, after one. */
  page({ after, limit }: { after: string; limit: number }): BadDatum[] {
    return this.sql.all<BadDatum>`
      SELECT id, key, fileHash FROM bad_datums WHERE id > ${after} ORDER BY id LIMIT ${limit}`;
  }

  set({ id, key, fileHash }: BadDatum): void {
    this.sql.run`INSERT OR REPLACE INTO bad_datums (id, key, fileHash) VALUES (${id}, ${key}, ${fileHash})`;
  }

  remove(id: string): void {
    this.sql.run`DELETE FROM bad_datums WHERE id = ${id}`;
  }
}

/** What a job changes of what is told of a datum: its file is written, or it goes. */
export interface ErrorChange {
  readonly id: string;
  readonly key: string;
  readonly gone: boolean;
}

/** What the oldest job changes in the errors branch. */
export class ErrorChangeStore extends Store {
  /** The last word on a datum counts. */
  set({ id, key, gone }: ErrorChange): void {
    this.sql.run`
      INSERT OR REPLACE INTO error_changes (id, key, gone) VALUES (${id}, ${key}, ${gone ? 1 : 0})`;
  }

  /** How many there are, counted up to `limit`. */
  count(limit: number): number {
    return this.sql.number`
      SELECT count(*) FROM (SELECT 1 FROM error_changes LIMIT ${limit})`;
  }

  /** In order of the datums' ids, after one. */
  page({ after, limit }: { after: string; limit: number }): ErrorChange[] {
    return this.sql.all<Stored>`
      SELECT id, key, gone FROM error_changes WHERE id > ${after} ORDER BY id LIMIT ${limit}`.map(changeOf);
  }

  /** Takes some out, in order. */
  take(limit: number): ErrorChange[] {
    const rows = this.sql.all<Stored>`SELECT id, key, gone FROM error_changes ORDER BY id LIMIT ${limit}`;
    for (const { id } of rows) this.sql.run`DELETE FROM error_changes WHERE id = ${id}`;
    return rows.map(changeOf);
  }
}

interface Stored {
  readonly id: string;
  readonly key: string;
  readonly gone: number;
}

function changeOf({ id, key, gone }: Stored): ErrorChange {
  return { id, key, gone: gone === 1 };
}

interface Merge extends ContentId {
  readonly id: string;
  /** The upload in the output branch that keeps the content. */
  readonly upload: string | null;
  /** The job that it was made for. */
  readonly job: number;
}

/** `used` of what is being removed. */
const REMOVED = -1;

/** Contents that were merged of what several datums wrote to one path: what was merged once is not merged again. */
export class MergeStore extends Store {
  readonly #givenUp: GivenUpStore;

  constructor(sql: Sql, givenUp: GivenUpStore) {
    super(sql);
    this.#givenUp = givenUp;
  }

  record({ id, digest, size, upload, job }: Merge): void {
    this.sql.run`
      INSERT OR REPLACE INTO merges (id, digest, size, upload, used)
      VALUES (${id}, ${digest}, ${size}, ${upload}, ${job})`;
  }

  /** The content that came of it; noted as used by a job. */
  use(id: string, job: number): ContentId | undefined {
    return this.sql.first<ContentId>`
      UPDATE merges SET used = max(used, ${job}) WHERE id = ${id} AND used <> ${REMOVED}
      RETURNING digest, size`;
  }

  /** Forgets those that made a content, and returns that with their uploads. */
  dropContent({ digest, size }: ContentId): GivenUp[] {
    return this.sql.all<{ upload: string | null }>`
      DELETE FROM merges WHERE digest = ${digest} AND size = ${size} RETURNING upload`.flatMap(
      ({ upload }) => (upload === null ? [] : [{ upload, digest, size }]),
    );
  }

  /** Forgets one whose content is gone. */
  drop(id: string): void {
    const merge = this.sql.first<{ upload: string | null }>`
      DELETE FROM merges WHERE id = ${id} RETURNING upload`;
    this.#givenUp.add(merge?.upload ?? null);
  }

  names({ upload, digest, size }: GivenUp): boolean {
    return this.sql.has`
      SELECT 1 FROM merges INDEXED BY merges_by_upload
      WHERE upload = ${upload} AND digest = ${digest} AND size = ${size} LIMIT 1`;
  }

  hasUpload(upload: string): boolean {
    return this.sql.has`SELECT 1 FROM merges INDEXED BY merges_by_upload WHERE upload = ${upload} LIMIT 1`;
  }

  contentsOf(upload: string): ContentId[] {
    return this.sql.all<ContentId>`
      SELECT digest, size FROM merges INDEXED BY merges_by_upload WHERE upload = ${upload}`;
  }

  /** Forgets one that is removed. */
  forget(id: string): void {
    this.sql.run`DELETE FROM merges WHERE id = ${id} AND used = ${REMOVED}`;
  }

  /** Marks some as removed that no job has used since one; they are used no more. */
  retire(job: number, limit: number): boolean {
    const rows = this.sql.all`
      UPDATE merges SET used = ${REMOVED} WHERE id IN (
        SELECT id FROM merges WHERE used > ${REMOVED} AND used < ${job} ORDER BY used LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }

  /** One that is removed, with its upload if nothing else needs that. */
  retired(): { id: string; upload: string | null } | undefined {
    return this.sql.first<{ id: string; upload: string | null }>`
      SELECT id, CASE WHEN NOT EXISTS (
        SELECT 1 FROM merges AS other WHERE other.upload = merges.upload AND other.id <> merges.id) THEN upload END AS upload
      FROM merges WHERE used = ${REMOVED} LIMIT 1`;
  }
}
