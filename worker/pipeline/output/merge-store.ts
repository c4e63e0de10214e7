import type { ContentId } from "../../../protocol/content.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { GivenUpStore } from "../attempts/given-up-store.ts";
import type { GivenUp } from "../inputs/erasure-store.ts";

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

  /** Whether a merge has a content by an upload. */
  names({ upload, digest, size }: GivenUp): boolean {
    return this.sql.has`
      SELECT 1 FROM merges INDEXED BY merges_by_upload
      WHERE upload = ${upload} AND digest = ${digest} AND size = ${size} LIMIT 1`;
  }

  /** Contents that are held by an upload. */
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
