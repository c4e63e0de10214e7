import { BranchStore } from "../store.ts";
import type { Position } from "../tree/commit-store.ts";

/** How long the commit of a tag that was deleted or moved is still kept; milliseconds. */
const UNTAGGED_KEPT_MS = 24 * 60 * 60 * 1000;

/**
 * The commits of tags that went or moved a short time ago. A row is a name like others (name-store.ts), so that a tag which
 * was deleted by mistake can be made again by the commit's id. It stands until the alarm removes it, whatever the clock
 * says: who looks whether a commit is kept, and who gives back, see the same.
 */
export class UntaggedStore extends BranchStore {
  /** A tag is gone from a commit: one row a commit, which stands since the last time. */
  keep({ gen, seq }: Position, { name, now }: { name: string; now: number }): void {
    this.sql.run`
      INSERT INTO untagged (gen, seq, due, name) VALUES (${gen}, ${seq}, ${now + UNTAGGED_KEPT_MS}, ${name})
      ON CONFLICT DO UPDATE SET due = max(due, excluded.due), name = excluded.name`;
    this.wake("housekeeping", now + UNTAGGED_KEPT_MS);
  }

  /** Lets go of some of those whose time is over. */
  forgetOld(now: number, limit: number): void {
    const rows = this.sql.all<Position>`
      SELECT gen, seq FROM untagged INDEXED BY untagged_by_due WHERE due <= ${now} ORDER BY due LIMIT ${limit}`;
    for (const { gen, seq } of rows) {
      this.sql.run`DELETE FROM untagged WHERE gen = ${gen} AND seq = ${seq}`;
    }
    if (rows.length > 0) this.wake("history GC");
  }

  /** When the time of the next one is over; undefined if there is none. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM untagged INDEXED BY untagged_by_due WHERE due >= 0 ORDER BY due LIMIT 1`?.due;
  }
}
