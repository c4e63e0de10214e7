import { comparePaths } from "../../core/path-order.ts";
import type { Change, FeedEvent } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { CommitRow, Position } from "../tree/commit-store.ts";
import { kindOf } from "../tree/file-store.ts";
import { AFTER_ALL_TEXTS } from "../tree/path-ranges.ts";

/** Most changes that one answer holds, whatever is asked. */
const MAX_CHANGES = 10_000;

/** Of (?1 gen, ?2 seq, ?3 lower, ?4 limit): what was born at a commit, by path. */
const BIRTHS = `
  SELECT path, lower(hex(digest)) AS digest, size FROM files INDEXED BY by_born
  WHERE gen = ?1 AND born = ?2 AND path >= ?3 ORDER BY path LIMIT ?4`;

/** As BIRTHS, up to and with ?5: what died at it and was not replaced. */
const DELETIONS = `
  SELECT path, NULL AS digest, 0 AS size FROM files AS dead INDEXED BY by_died
  WHERE gen = ?1 AND died = ?2 AND path >= ?3 AND path <= ?5
    AND NOT EXISTS (SELECT 1 FROM files WHERE gen = ?1 AND path = dead.path AND born = ?2)
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
  { sql }: Pick<Ledger, "sql">,
  { gen, seq, lower, limit }: Position & { lower: string; limit: number },
): ChangePage {
  const asked = Math.min(Math.max(limit, 1), MAX_CHANGES);
  const births = sql.query<ChangeRow>(BIRTHS, [gen, seq, lower, asked + 1]);
  // No further than the births: so no more of what was replaced is passed over than was born.
  const upper = births.length > asked ? (births.at(-1)?.path ?? lower) : AFTER_ALL_TEXTS;
  const deletions = sql.query<ChangeRow>(DELETIONS, [gen, seq, lower, asked + 1, upper]);
  const rows = [...births, ...deletions].sort((a, b) => comparePaths(a.path, b.path));
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
  ledger: Pick<Ledger, "sql" | "commits" | "lineages">,
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

/** At least as many as `readChanges` returns: what is replaced counts twice. */
function changeCount(commit: CommitRow, before: CommitRow | undefined): number {
  const [births, deaths] = before?.gen === commit.gen ? [before.births, before.deaths] : [0, 0];
  return commit.births - births + commit.deaths - deaths;
}

function eventOf(
  ledger: Pick<Ledger, "sql" | "lineages">,
  { commit, limit }: { commit: CommitRow; limit: number },
): FeedEvent {
  const { gen, seq, id, kind, createdAt } = commit;
  const page =
    kind === "commit" ? readChanges(ledger, { gen, seq, lower: "", limit }) : { changes: [], next: null };
  const lineage = ledger.lineages.of(commit);
  return { generation: gen, seq, id, kind, createdAt, ...page, ...(lineage && { lineage }) };
}
