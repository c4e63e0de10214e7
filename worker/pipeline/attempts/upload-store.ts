import { Store } from "../../objects/store.ts";

/** Leases that ended without a result, until the output branch knows that what was uploaded under them is nobody's. */
export class LostLeaseStore extends Store {
  /** The lease of an attempt ends without a result, if it has one. */
  ofAttempt({ job, id }: { readonly job: number; readonly id: string }): void {
    const isNew = this.sql.has`
      INSERT OR IGNORE INTO lost_leases (lease)
      SELECT lease FROM attempts WHERE job = ${job} AND id = ${id} AND lease IS NOT NULL RETURNING lease`;
    if (isNew) this.wake("lostUploads");
  }

  ofTask(id: string): void {
    const isNew = this.sql.has`
      INSERT OR IGNORE INTO lost_leases (lease)
      SELECT lease FROM tasks WHERE id = ${id} AND lease IS NOT NULL RETURNING lease`;
    if (isNew) this.wake("lostUploads");
  }

  some(limit: number): string[] {
    return this.sql.all<{ lease: string }>`
      SELECT lease FROM lost_leases ORDER BY lease LIMIT ${limit}`.map(({ lease }) => lease);
  }

  forget(leases: readonly string[]): void {
    this.sql
      .run`DELETE FROM lost_leases WHERE lease IN (SELECT value FROM json_each(${JSON.stringify(leases)}))`;
  }
}

interface GivenUp {
  readonly upload: string;
  /** How often it was given up: tells whether that has happened again since. */
  readonly marks: number;
}

/** Uploads in the output branch of which a result or a merge went that named them, until the branch has let go of the rest. */
export class GivenUpStore extends Store {
  /** Null: nothing was uploaded. */
  add(upload: string | null): void {
    if (upload === null) return;
    this.sql.run`
      INSERT INTO given_up (upload, marks) VALUES (${upload}, 1)
      ON CONFLICT (upload) DO UPDATE SET marks = marks + 1`;
  }

  some(limit: number): GivenUp[] {
    return this.sql.all<GivenUp>`SELECT upload, marks FROM given_up ORDER BY upload LIMIT ${limit}`;
  }

  /** The branch has let go. Not of what was given up again since. */
  settle(uploads: readonly GivenUp[]): void {
    for (const { upload, marks } of uploads)
      this.sql.run`DELETE FROM given_up WHERE upload = ${upload} AND marks = ${marks}`;
  }
}
