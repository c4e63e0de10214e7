import { chunkOfBlob, manifestBytes } from "../../blobs/blob-name.ts";
import type { JsonBlob } from "../../blobs/manifest.ts";
import type { UnwantedBlob } from "../../blobs/port.ts";
import { BranchStore } from "../store.ts";

/** How long the blobs of a content that had a name stay for reads that are under way; milliseconds. */
export const READERS_GRACE_MS = 120_000;
/** How long those stay that no reader can have found, so that many go together; milliseconds. */
export const NAMELESS_GRACE_MS = 10_000;
/** How long after its first failure a deletion is tried again, and at most after any; milliseconds. */
const FIRST_RETRY_MS = 10_000;
const LONGEST_RETRY_MS = 60 * 60 * 1000;
/** With more tries the wait stays the longest one; a larger shift would overflow. */
const MOST_DOUBLINGS = 20;

/**
 * Of (?1 JSON of names of blobs, each with the digest and the size of the chunk that its name tells of): those that a content
 * owns. One that is the whole of a content has no row of `blobs`: the content's row names it.
 */
const OWNED = `
  SELECT asked.value ->> 0 AS name FROM json_each(?1) AS asked
  WHERE EXISTS (SELECT 1 FROM blobs WHERE blobs.name = asked.value ->> 0)
    OR EXISTS (
      SELECT 1 FROM contents
      WHERE contents.digest = unhex(asked.value ->> 1) AND contents.size = asked.value ->> 2
        AND keeps IS NULL AND onLoan = 0 AND iif(kind = 1, body ->> '$[0].blob', NULL) = asked.value ->> 0)`;

/** Whether a file or an open commit has a content, or ever had it: then readers may be at its blobs. */
export type Named = 0 | 1;

/** Whether a version that had a content was erased, whatever else had it: then no copy of its blobs is to stay in a cache. */
export type Erased = 0 | 1;

/** A blob whose time has come. */
export interface DueBlob extends UnwantedBlob {
  readonly erased: Erased;
}

/** Blobs that are deleted when they are due (content-store.ts tells how it comes to that, and work/blob-reaper.ts how they go). */
export class PendingDeletionStore extends BranchStore {
  /** Leaves out those that a content owns. */
  add(
    blobs: readonly string[],
    { now, named, erased, borrowed }: { now: number; named: Named; erased: Erased; borrowed: boolean },
  ): void {
    if (blobs.length === 0) return;
    const owned = this.owned(blobs);
    const unowned = JSON.stringify(blobs.filter((blob) => !owned.has(blob)));
    const due = now + (named ? READERS_GRACE_MS : NAMELESS_GRACE_MS);
    const some = this.sql.run`
      INSERT INTO pending_deletions (blob, due, borrowed, erased)
      SELECT value, ${due}, ${Number(borrowed)}, ${erased} FROM json_each(${unowned}) WHERE true ON CONFLICT DO NOTHING`;
    if (some) this.wake("blob reaper", due);
  }

  /** Those of some blobs that a content owns. */
  owned(blobs: readonly string[]): ReadonlySet<string> {
    const asked = blobs.map((blob) => {
      const { digest = "", size = 0 } = chunkOfBlob(blob) ?? {};
      return [blob, digest, size];
    });
    const rows = this.sql.query<{ name: string }>(OWNED, [JSON.stringify(asked)]);
    return new Set(rows.map(({ name }) => name));
  }

  /** Some of those whose time has come. None of them should be in a content: one that is is let off. */
  due(now: number, limit: number): DueBlob[] {
    const due = this.sql.all<DueBlob>`
      SELECT blob, borrowed, erased
      FROM pending_deletions INDEXED BY pending_deletions_by_due WHERE due <= ${now} ORDER BY due LIMIT ${limit}`;
    const owned = this.owned(due.map(({ blob }) => blob));
    this.forget([...owned]);
    return due.filter(({ blob }) => !owned.has(blob));
  }

  /** They are deleted. */
  forget(blobs: readonly string[]): void {
    if (blobs.length === 0) return;
    this.sql
      .run`DELETE FROM pending_deletions WHERE blob IN (SELECT value FROM json_each(${JSON.stringify(blobs)}))`;
  }

  /**
   * They could not be deleted: again later, each time twice as much, but not before a reader's grace that one may have got
   * meanwhile. Returns how long it is until the last of them is tried; milliseconds.
   */
  postpone(blobs: readonly string[], now: number): number {
    const postponed = this.sql.all<{ due: number }>`
      UPDATE pending_deletions SET tries = tries + 1,
        due = max(due, ${now} + min(${FIRST_RETRY_MS} << min(tries, ${MOST_DOUBLINGS}), ${LONGEST_RETRY_MS}))
      WHERE blob IN (SELECT value FROM json_each(${JSON.stringify(blobs)})) RETURNING due`;
    return postponed.reduce((longest, { due }) => Math.max(longest, due - now), 0);
  }

  /**
   * Readers are still at these blobs: those that are pending deletion get another grace. Returns whether one of those is a manifest
   * that lists blobs of others.
   */
  keepForReaders(blobs: readonly string[], now: number): { readonly borrowed: boolean } {
    const names = JSON.stringify(blobs);
    const pending = this.sql.first<{ n: number; borrowed: 0 | 1 }>`
      SELECT count(*) AS n, ifnull(max(borrowed), 0) AS borrowed
      FROM json_each(${names}) AS read CROSS JOIN pending_deletions ON pending_deletions.blob = read.value`;
    if (!pending || pending.n === 0) return { borrowed: false };
    const due = now + READERS_GRACE_MS;
    this.sql.run`
      UPDATE pending_deletions SET due = ${due}
      WHERE blob IN (SELECT value FROM json_each(${names})) AND due < ${due}`;
    return { borrowed: pending.borrowed === 1 };
  }

  /** When the next one is due; undefined if there is none. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM pending_deletions INDEXED BY pending_deletions_by_due WHERE due >= 0 ORDER BY due LIMIT 1`
      ?.due;
  }

  /** The first manifest from a name on, and how often its deletion has failed. */
  manifestFrom(blob: string): (JsonBlob & { readonly tries: number }) | undefined {
    const row = this.sql.first<{ blob: string; tries: number }>`
      SELECT blob, tries FROM pending_deletions
      WHERE blob >= ${blob} AND instr(blob, '.manifest.') > 0 ORDER BY blob LIMIT 1`;
    return row && { ...row, length: manifestBytes(row.blob) ?? 0 };
  }

  /** How many there are, and how many bytes, as their names say: of a chunk and of a manifest's page. */
  total(): { readonly count: number; readonly bytes: number } {
    return this.sql.one<{ count: number; bytes: number }>`
      SELECT count(*) AS count, total(CAST(substr(blob, instr(blob, '-') + 1) AS INTEGER)) AS bytes
      FROM pending_deletions`;
  }
}
