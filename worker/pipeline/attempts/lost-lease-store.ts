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

  /** The same for a task. */
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
