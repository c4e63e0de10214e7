import type { CommitRow, Position } from "./commits.ts";
import type { Change, FeedEvent } from "./contract.ts";
import { kindOf } from "./files.ts";
import type { Ledger } from "./ledger.ts";

/** Most changes that one answer holds, whatever is asked. */
const MAX_CHANGES = 10_000;

/** Births of a commit, and its deaths without a birth, by path. */
export const CHANGES = `
  SELECT path, lower(hex(digest)) AS digest, size FROM files INDEXED BY by_born
  WHERE gen = ?1 AND born = ?2 AND path >= ?3
  UNION ALL
  SELECT path, NULL, NULL FROM files AS dead INDEXED BY by_died
  WHERE gen = ?1 AND died = ?2 AND path >= ?3
    AND NOT EXISTS (SELECT 1 FROM files WHERE gen = ?1 AND path = dead.path AND born = ?2)
  ORDER BY path LIMIT ?4`;

interface ChangePage {
  readonly changes: Change[];
  /** What the next page comes after; null where there is none. */
  readonly next: string | null;
}

/** Changes of one commit from `lower` on, in path order. */
export function readChanges(
  ledger: Ledger,
  { gen, seq, lower, limit }: Position & { lower: string; limit: number },
): ChangePage {
  const asked = Math.min(Math.max(limit, 1), MAX_CHANGES);
  const rows = ledger.sql.query<{ path: string; digest: string | null; size: number }>(CHANGES, [
    gen,
    seq,
    lower,
    asked + 1,
  ]);
  const changes = rows.slice(0, asked).map(({ path, digest, size }) => ({
    path,
    now: digest === null ? null : { kind: kindOf(path), digest, size },
  }));
  return { changes, next: rows.length > asked ? (changes.at(-1)?.path ?? null) : null };
}

/**
 * Events after a position, oldest first, until about `limit` changes are together; an event without changes counts as
 * one. Only the first event may bring less than all of its changes.
 */
export function readEvents(
  ledger: Ledger,
  { gen, seq, limit }: Position & { limit: number },
): { events: FeedEvent[]; more: boolean } {
  const most = Math.min(Math.max(limit, 1), MAX_CHANGES);
  const commits = ledger.commits.after({ gen, seq }, most + 1);
  const events: FeedEvent[] = [];
  let room = most;
  let before = ledger.commits.at({ gen, seq });
  for (const commit of commits) {
    const count = Math.max(1, changeCount(commit, before));
    if (events.length > 0 && count > room) break;
    events.push(eventOf(ledger, { commit, limit: most }));
    room -= count;
    before = commit;
  }
  return { events, more: commits.length > events.length };
}

/** At least as many as `readChanges` answers: what is replaced counts twice. */
function changeCount(commit: CommitRow, before: CommitRow | undefined): number {
  const [births, deaths] = before?.gen === commit.gen ? [before.births, before.deaths] : [0, 0];
  return commit.births - births + commit.deaths - deaths;
}

function eventOf(ledger: Ledger, { commit, limit }: { commit: CommitRow; limit: number }): FeedEvent {
  const { gen, seq, id, kind, createdAt } = commit;
  const page =
    kind === "commit" ? readChanges(ledger, { gen, seq, lower: "", limit }) : { changes: [], next: null };
  return { generation: gen, seq, id, kind, createdAt, ...page };
}
