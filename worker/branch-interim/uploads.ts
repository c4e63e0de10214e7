import type { ContentId } from "../../protocol/content.ts";
import { digestBytes } from "./contents.ts";

/** How long an upload stays open without renewal. The collector, not the commit, ends one that is overdue. */
export const UPLOAD_LEASE_MS = 60 * 60 * 1000;

/** Opens an upload; one lease has one upload, whoever asks how often. Answers its id. */
export function openUpload(
  sql: SqlStorage,
  { id, gen, lease, now }: { id: string; gen: number; lease: string | null; now: number },
): string {
  const rows = sql.exec<{ id: string }>(
    `INSERT INTO uploads (id, gen, lease, opened_at, lease_until) VALUES (?1, ?2, ?3, ?4, ?5)
     ON CONFLICT (lease) DO UPDATE SET lease_until = excluded.lease_until RETURNING id`,
    id,
    gen,
    lease,
    now,
    now + UPLOAD_LEASE_MS,
  );
  return rows.one().id;
}

/** The generation that an open upload belongs to; null where it is not open. */
export function uploadGeneration(sql: SqlStorage, id: string): number | null {
  return sql.exec<{ gen: number }>("SELECT gen FROM uploads WHERE id = ?", id).toArray()[0]?.gen ?? null;
}

export function renewUpload(sql: SqlStorage, id: string, now: number): string | null {
  const rows = sql.exec<{ uid: string }>(
    `UPDATE uploads SET lease_until = ? WHERE id = ?
     RETURNING (SELECT uid FROM generations WHERE generations.gen = uploads.gen) AS uid`,
    now + UPLOAD_LEASE_MS,
    id,
  );
  return rows.toArray()[0]?.uid ?? null;
}

/** Ends an upload: what it kept is from now on kept by files alone. */
export function closeUpload(sql: SqlStorage, id: string): void {
  sql.exec("DELETE FROM holds WHERE upload = ?", id);
  sql.exec("DELETE FROM uploads WHERE id = ?", id);
}

/** Keeps a content for an upload. */
export function hold(sql: SqlStorage, upload: string, { digest, size }: ContentId): void {
  sql.exec(
    "INSERT INTO holds (upload, digest, size) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    upload,
    digestBytes(digest),
    size,
  );
}
