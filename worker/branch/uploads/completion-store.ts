import type { MultipartStatus } from "../contract/multipart.ts";
import { BranchStore } from "../store.ts";

/** How long a completed multipart upload is remembered for clients that ask again; milliseconds. */
const COMPLETION_KEPT_MS = 24 * 60 * 60 * 1000;

/** Multipart uploads that were completed lately. */
export class CompletionStore extends BranchStore {
  add(upload: string, { gen, status, now }: { gen: number; status: MultipartStatus; now: number }): void {
    this.sql.run`
      INSERT INTO completions (upload, gen, due, status)
      VALUES (${upload}, ${gen}, ${now + COMPLETION_KEPT_MS}, ${JSON.stringify(status)})`;
    this.wake("housekeeping", now + COMPLETION_KEPT_MS);
  }

  find(upload: string, gen: number): MultipartStatus | undefined {
    const row = this.sql.first<{ status: string }>`
      SELECT status FROM completions WHERE upload = ${upload} AND gen = ${gen}`;
    return row && JSON.parse(row.status);
  }

  /** Forgets some of those whose time is over. */
  forgetOld(now: number, limit: number): void {
    this.sql.run`
      DELETE FROM completions WHERE upload IN (
        SELECT upload FROM completions INDEXED BY completions_by_due WHERE due <= ${now} ORDER BY due LIMIT ${limit}
      )`;
  }

  /** When the next one is to be forgotten; undefined if there is none. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM completions INDEXED BY completions_by_due WHERE due >= 0 ORDER BY due LIMIT 1`?.due;
  }
}
