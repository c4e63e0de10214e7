import type { Sql } from "./sql.ts";

export interface SlotRequest {
  readonly worker: string;
  readonly node: string;
  /** How many workers the pipeline has now. */
  readonly allowed: number;
  readonly now: number;
  readonly until: number;
}

/** Which workers may lease: "exactly n" (spec §2.3) holds here, whatever the fleet starts. */
export class SlotStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Takes or keeps a slot for a worker. Where there are too many, those who came last lose theirs. */
  take({ worker, node, allowed, now, until }: SlotRequest): boolean {
    this.#sql.run`DELETE FROM slots WHERE until <= ${now}`;
    const own = this.#sql.first<{ since: number }>`SELECT since FROM slots WHERE worker = ${worker}`;
    const since = own?.since ?? now;
    const before = this.#sql.first<{ count: number }>`
      SELECT count(*) AS count FROM slots
      WHERE worker <> ${worker} AND (${own ? 0 : 1} OR (since, worker) < (${since}, ${worker}))`;
    if ((before?.count ?? 0) >= allowed) {
      this.release(worker);
      return false;
    }
    this.#sql.run`
      INSERT INTO slots (worker, node, since, until) VALUES (${worker}, ${node}, ${since}, ${until})
      ON CONFLICT (worker) DO UPDATE SET until = excluded.until`;
    return true;
  }

  /** Only where the worker has one. */
  renew(worker: string, { now, until }: { now: number; until: number }): void {
    this.#sql.run`UPDATE slots SET until = ${until} WHERE worker = ${worker} AND until > ${now}`;
  }

  release(worker: string): void {
    this.#sql.run`DELETE FROM slots WHERE worker = ${worker}`;
  }
}
