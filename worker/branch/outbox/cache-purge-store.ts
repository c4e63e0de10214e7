import { BranchStore } from "../store.ts";

/** How long after blobs were deleted their copies are purged once more; milliseconds. */
const PURGE_AGAIN_MS = 10 * 60 * 1000;
/** So often at most the copies of blobs are purged that are deleted one after the other; milliseconds. */
const TOGETHER_MS = 60_000;

/** What the copies of some deleted blobs are tagged with. */
interface CachePurge {
  readonly tag: string;
  /** How often blobs with the tag were deleted. */
  readonly marks: number;
}

/**
 * What caches near readers are to forget, by the tags of copies, until they have confirmed it. They are asked twice: when the
 * blobs are deleted, and ten minutes later, since a read that had begun by then may have put a copy into a cache afterwards.
 */
export class CachePurgeStore extends BranchStore {
  /** Blobs with these tags were deleted just now. */
  add(tags: readonly string[], now: number): void {
    if (tags.length === 0) return;
    this.sql.run`
      INSERT INTO cache_purges (tag, due, last, marks)
      SELECT value, ${now}, ${now + PURGE_AGAIN_MS}, 1 FROM json_each(${JSON.stringify(tags)}) WHERE true
      ON CONFLICT DO UPDATE SET
        due = min(due, ${now + TOGETHER_MS}), last = excluded.last, marks = marks + 1`;
    this.wake("cache purge", now);
  }

  due(now: number, limit: number): CachePurge[] {
    return this.sql.all<CachePurge>`
      SELECT tag, marks FROM cache_purges WHERE due <= ${now} ORDER BY due LIMIT ${limit}`;
  }

  /** When the next one is due; undefined if there is none. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`SELECT due FROM cache_purges ORDER BY due LIMIT 1`?.due;
  }

  /** The caches have forgotten these, for which they were asked at a time. What was deleted since is still to be purged. */
  confirmed(purged: readonly CachePurge[], askedAt: number): void {
    const rows = JSON.stringify(purged.map(({ tag, marks }) => [tag, marks]));
    this.sql.run`
      DELETE FROM cache_purges
      WHERE last <= ${askedAt} AND (tag, marks) IN (SELECT value ->> 0, value ->> 1 FROM json_each(${rows}))`;
    this.sql.run`
      UPDATE cache_purges SET due = last
      WHERE (tag, marks) IN (SELECT value ->> 0, value ->> 1 FROM json_each(${rows}))`;
  }
}
