import { Store } from "../../objects/store.ts";
import { LEASED } from "./attempt-store.ts";

export interface SlotRequest {
  readonly worker: string;
  readonly node: string;
  /** How many workers the pipeline has now. */
  readonly allowed: number;
  /** Tells the lease call that takes it from others; null: it does not say. */
  readonly visit: string | null;
  readonly now: number;
  readonly until: number;
}

/** Which workers may lease. That exactly as many work as the specification says holds here, whatever the fleet starts. */
export class SlotStore extends Store {
  /** Takes or keeps a slot for a worker. If there are too many workers, those that came last lose theirs. */
  take({ worker, node, allowed, visit, now, until }: SlotRequest): boolean {
    this.sql.run`DELETE FROM slots WHERE until <= ${now}`;
    const own = this.sql.first<{ since: number }>`SELECT since FROM slots WHERE worker = ${worker}`;
    const since = own?.since ?? now;
    const before = this.sql.first<{ count: number }>`
      SELECT count(*) AS count FROM slots
      WHERE worker <> ${worker} AND (${own ? 0 : 1} OR (since, worker) < (${since}, ${worker}))`;
    if ((before?.count ?? 0) >= allowed) {
      this.release(worker);
      return false;
    }
    this.sql.run`
      INSERT INTO slots (worker, node, since, until, visit)
      VALUES (${worker}, ${node}, ${since}, ${until}, ${visit})
      ON CONFLICT (worker) DO UPDATE SET until = excluded.until, visit = excluded.visit`;
    return true;
  }

  /** Does nothing if the worker has none. */
  renew(worker: string, { now, until }: { now: number; until: number }): void {
    this.sql.run`UPDATE slots SET until = ${until} WHERE worker = ${worker} AND until > ${now}`;
  }

  /** Slots that would last longer end then; with `isAhead` those that would end before last until then if their worker holds a lease. */
  setExpiry(until: number, { isAhead }: { isAhead: boolean }): void {
    this.sql.run`UPDATE slots SET until = ${until} WHERE until > ${until}`;
    if (!isAhead) return;
    this.sql.execute(
      `UPDATE slots SET until = ?1 WHERE until < ?1 AND worker IN (
        SELECT a.worker FROM ${LEASED}
        UNION ALL SELECT worker FROM tasks INDEXED BY tasks_by_expiry WHERE leaseUntil IS NOT NULL)`,
      [until],
    );
  }

  /** Why a worker can't work, kept as long as its slot; null: it can. Does nothing if it has none. */
  setTrouble(worker: string, trouble: string | null): void {
    this.sql
      .run`UPDATE slots SET trouble = ${trouble} WHERE worker = ${worker} AND trouble IS NOT ${trouble}`;
  }

  /** By node, why workers there can't work: one word for each node. */
  troubles(now: number): { node: string; trouble: string }[] {
    return this.sql.all<{ node: string; trouble: string }>`
      SELECT node, min(trouble) AS trouble FROM slots
      WHERE until > ${now} AND trouble IS NOT NULL GROUP BY node ORDER BY node`;
  }

  /** Whether any worker may lease. */
  isTaken(now: number): boolean {
    return this.sql.has`SELECT 1 FROM slots WHERE until > ${now} LIMIT 1`;
  }

  /**
   * Frees the slot of a worker that went away while it waited for something to do. Not if it has called again
   * since, or holds a lease: then it is at work, and only its connection broke.
   */
  vacate(worker: string, visit: string): boolean {
    const freed = this.sql.query(
      `DELETE FROM slots WHERE worker = ?1 AND visit = ?2
        AND NOT EXISTS (SELECT 1 FROM ${LEASED} WHERE c.worker = ?1 AND a.worker = ?1)
        AND NOT EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_by_expiry
          WHERE leaseUntil IS NOT NULL AND worker = ?1)
      RETURNING worker`,
      [worker, visit],
    );
    return freed.length > 0;
  }

  release(worker: string): void {
    this.sql.run`DELETE FROM slots WHERE worker = ${worker}`;
  }
}
