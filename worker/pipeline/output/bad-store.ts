import { Store } from "../../objects/store.ts";

/** A datum that the output lacks. */
interface BadDatum {
  readonly id: string;
  readonly key: string;
  /** What its file in the errors branch says of the failure, hashed; null: it has no file yet. */
  readonly fileHash: string | null;
}

/** The datums that the output lacks, and what the errors branch tells of each. */
export class BadDatumStore extends Store {
  /** Whether there are any. */
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
    const row = this.sql.first<{ count: number }>`
      SELECT count(*) AS count FROM (SELECT 1 FROM error_changes LIMIT ${limit})`;
    return row?.count ?? 0;
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
