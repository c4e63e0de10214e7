/** First delay before a delivery is tried again; it doubles up to the last. */
const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 60_000;

export interface Letter {
  readonly [column: string]: SqlStorageValue;
  readonly kind: string;
  readonly target: string;
  readonly version: number;
  readonly tries: number;
}

/** Leaves word for someone, in the transaction of what there is to tell. Word that waits already is not doubled. */
export function post(sql: SqlStorage, { kind, target, now }: { kind: "catalogue" | "bell"; target: string; now: number }): void {
  sql.exec(
    `INSERT INTO outbox (kind, target, version, tries, due) VALUES (?, ?, 1, 0, ?)
     ON CONFLICT DO UPDATE SET version = version + 1, tries = 0, due = excluded.due`,
    kind,
    target,
    now,
  );
}

/** What is to be delivered now, at most `limit`. */
export function lettersDue(sql: SqlStorage, now: number, limit: number): Letter[] {
  const query = "SELECT kind, target, version, tries FROM outbox WHERE due <= ? LIMIT ?";
  return sql.exec<Letter>(query, now, limit).toArray();
}

/** Forgets what was delivered, unless there is newer word meanwhile. */
export function delivered(sql: SqlStorage, { kind, target, version }: Letter): void {
  sql.exec("DELETE FROM outbox WHERE kind = ? AND target = ? AND version = ?", kind, target, version);
}

/** Tries again later. */
export function undelivered(sql: SqlStorage, { kind, target, version, tries }: Letter, now: number): void {
  const delay = Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** tries);
  sql.exec(
    "UPDATE outbox SET tries = tries + 1, due = ? WHERE kind = ? AND target = ? AND version = ?",
    now + delay,
    kind,
    target,
    version,
  );
}

/** When the next delivery is due, or null. */
export function nextDue(sql: SqlStorage): number | null {
  return sql.exec<{ due: number | null }>("SELECT MIN(due) AS due FROM outbox").one().due;
}
