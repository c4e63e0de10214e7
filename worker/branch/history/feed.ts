import { comparePaths } from "../../core/path-order.ts";
import type { Change, FeedEvent } from "../contract/pipelines.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { pageOf } from "../read/page.ts";
import type { CommitRow, Position } from "../tree/commit-store.ts";
import { kindOf } from "../tree/file-store.ts";
import { AFTER_ALL_TEXTS } from "../tree/path-ranges.ts";

/** Most changes that one answer holds, whatever is asked. */
const MAX_CHANGES = 10_000;

/** Of (?1 gen, ?2 seq, ?3 lower, ?4 limit): what was born at a commit, by path; of what was erased nothing. */
const BIRTHS = `
  SELECT path, lower(hex(digest)) AS digest, size FROM files INDEXED BY by_born
  WHERE gen = ?1 AND born = ?2 AND path >= ?3 AND kind < 2 ORDER BY path LIMIT ?4`;

/** As BIRTHS, up to and with ?5: what died at it and was not replaced, or was erased (erasures/erase.ts). */
const DELETIONS = `
  SELECT path, NULL AS digest, 0 AS size FROM files AS dead INDEXED BY by_died
  WHERE gen = ?1 AND died = ?2 AND path >= ?3 AND path <= ?5
    AND NOT EXISTS (SELECT 1 FROM files WHERE gen = ?1 AND path = dead.path AND born = ?2 AND kind < 2)
    AND (kind < 2 OR NOT EXISTS (
      SELECT 1 FROM files AS other INDEXED BY by_died
      WHERE other.gen = ?1 AND other.died IS NOT NULL AND other.died = ?2 AND other.path = dead.path AND other.kind < 2
    ))
  ORDER BY path LIMIT ?4`;

interface ChangeRow {
  readonly path: string;
  readonly digest: string | null;
  readonly size: number;
}

interface ChangePage {
  readonly changes: Change[];
  /** What the next page comes after; null if there is none. */
  readonly next: string | null;
}

/** Changes of one commit from `lower` on, in path order. */
export function readChanges(
  { sql }: Ledger,
  { gen, seq, lower, limit }: Position & { lower: string; limit: number },
): ChangePage {
  const asked = Math.min(Math.max(limit, 1), MAX_CHANGES);
  const births = sql.query<ChangeRow>(BIRTHS, [gen, seq, lower, asked + 1]);
  // No further than the births: so no more of what was replaced is passed over than was born.
  const upper = births.length > asked ? (births.at(-1)?.path ?? lower) : AFTER_ALL_TEXTS;
  const deletions = sql.query<ChangeRow>(DELETIONS, [gen, seq, lower, asked + 1, upper]);
  const rows = [...births, ...deletions].sort((a, b) => comparePaths(a.path, b.path));
  const { page, last } = pageOf(rows, asked);
  const changes = page.map(({ path, digest, size }) => ({
    path,
    now: digest === null ? null : { kind: kindOf(path), digest, size },
  }));
  return { changes, next: last?.path ?? null };
}

/**
 * Events after a position, oldest first, until about `limit` changes are together; an event without changes counts as
 * one. Only the first event may bring less than all of its changes.
 *
 * What subscribers need is held for them. A position from before the horizon is one of a pipeline that was put back to an
 * earlier state: it goes on with the horizon, and hears that what was before is lost (`gap`).
 */
export function readEvents(
  ledger: Ledger,
  { gen, seq, limit, isGap = false }: Position & { limit: number; isGap?: boolean },
): { events: FeedEvent[]; more: boolean } {
  const most = Math.min(Math.max(limit, 1), MAX_CHANGES);
  const commits = ledger.commits.after({ gen, seq }, most + 1);
  const events: FeedEvent[] = [];
  let room = most;
  let before = ledger.commits.at({ gen, seq });
  let read: Position = { gen, seq };
  for (const commit of commits) {
    const horizon = ledger.horizons.horizonOf(commit.gen);
    const from = commit.gen === read.gen ? read.seq : 0;
    // Of the first commit of all, nothing is lost.
    if (from < horizon && horizon > 1 && !(isGap && events.length === 0)) {
      if (events.length > 0) break;
      return readEvents(ledger, { gen: commit.gen, seq: horizon - 1, limit, isGap: true });
    }
    read = commit;
    const count = Math.max(1, changeCount(commit, before));
    if (events.length > 0 && count > room) break;
    const event = eventOf(ledger, { commit, limit: most });
    events.push(isGap && events.length === 0 ? { ...event, gap: true } : event);
    // What was erased counts with no commit, and may be told by any.
    room -= Math.max(count, event.changes.length);
    before = commit;
  }
  return { events, more: commits.length > events.length };
}

/** At least as many as `readChanges` returns: what is replaced counts twice. */
function changeCount(commit: CommitRow, before: CommitRow | undefined): number {
  const [births, deaths] = before?.gen === commit.gen ? [before.births, before.deaths] : [0, 0];
  return commit.births - births + commit.deaths - deaths;
}

function eventOf(ledger: Ledger, { commit, limit }: { commit: CommitRow; limit: number }): FeedEvent {
  const { gen, seq, id, kind, createdAt } = commit;
  const isDeletion = kind === "deletion";
  const page = isDeletion ? { changes: [], next: null } : readChanges(ledger, { gen, seq, lower: "", limit });
  const lineage = ledger.lineages.of(commit);
  return {
    ...{ generation: gen, seq, id, createdAt, ...page },
    kind: isDeletion ? "deletion" : "commit",
    ...(lineage && { lineage }),
  };
}
