import type { Change, CommitPosition, Cursor, FeedEvent } from "../branch/contract.ts";
import { kindName } from "./rows.ts";

interface EventRow {
  readonly [column: string]: SqlStorageValue;
  readonly gen: number;
  readonly seq: number;
  readonly id: string;
  readonly created_at: number;
  readonly deletion: number;
}

/** Commits and deletions after a cursor, oldest first, with about `limit` changes in all; one event at least. */
export function eventsAfter(sql: SqlStorage, cursor: Cursor, limit: number): { events: FeedEvent[]; more: boolean } {
  const rows = eventRows(sql, cursor, limit + 1);
  const events: FeedEvent[] = [];
  let room = limit;
  for (const row of rows) {
    if (room <= 0) return { events, more: true };
    const event = feedEvent(sql, row, room);
    events.push(event);
    room -= event.changes.length + 1;
  }
  return { events, more: false };
}

/** A page of what a commit changed: paths greater than `after`. Where it changed nothing more, `next` is null. */
export function changesOf(
  sql: SqlStorage,
  { generation, seq, after, limit }: CommitPosition & { after: string; limit: number },
): { changes: Change[]; next: string | null } {
  const query = `
    SELECT path, MAX(now) AS now, MAX(kind) AS kind, MAX(digest) AS digest, MAX(size) AS size FROM (
      SELECT path, 1 AS now, kind, lower(hex(digest)) AS digest, size FROM files INDEXED BY files_by_born
        WHERE gen = ?1 AND born = ?2 AND path > ?3
      UNION ALL
      SELECT path, 0, NULL, NULL, NULL FROM files INDEXED BY files_by_died
        WHERE gen = ?1 AND died = ?2 AND path > ?3
    ) GROUP BY path ORDER BY path LIMIT ?4`;
  const rows = sql.exec<ChangeRow>(query, generation, seq, after, limit + 1).toArray();
  const changes = rows.slice(0, limit).map(change);
  return { changes, next: rows.length > limit ? (changes.at(-1)?.path ?? null) : null };
}

interface ChangeRow {
  readonly [column: string]: SqlStorageValue;
  readonly path: string;
  readonly now: number;
  readonly kind: number | null;
  readonly digest: string | null;
  readonly size: number | null;
}

function change({ path, now, kind, digest, size }: ChangeRow): Change {
  if (now === 0) return { path, now: null };
  return { path, now: { kind: kindName(kind ?? 0), digest: digest ?? "", size: size ?? 0 } };
}

function eventRows(sql: SqlStorage, { generation, seq }: Cursor, limit: number): EventRow[] {
  const query = `
    SELECT * FROM (
      SELECT gen, seq, id, created_at, 0 AS deletion FROM commits WHERE (gen, seq) > (?1, ?2) ORDER BY gen, seq LIMIT ?3
    ) UNION ALL SELECT * FROM (
      SELECT gen, deleted_seq, deletion_id, deleted_at, 1 FROM generations
        WHERE gen >= ?1 AND deleted_at IS NOT NULL AND (gen, deleted_seq) > (?1, ?2) ORDER BY gen LIMIT ?3
    ) ORDER BY 1, 2 LIMIT ?3`;
  return sql.exec<EventRow>(query, generation, seq, limit).toArray();
}

function feedEvent(sql: SqlStorage, row: EventRow, room: number): FeedEvent {
  const position = { generation: row.gen, seq: row.seq };
  const about = { ...position, id: row.id, createdAt: row.created_at };
  if (row.deletion === 1) return { ...about, kind: "deletion", changes: [], next: null };
  return { ...about, kind: "commit", ...changesOf(sql, { ...position, after: "", limit: room }) };
}
