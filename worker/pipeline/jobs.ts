import type { JobState } from "../../protocol/pipelines.ts";
import type { Position } from "./sources.ts";
import type { Sql } from "./sql.ts";

/**
 * What is left to do until a job's datums are known. Paths of changes are collected (from the commit, from a
 * snapshot of every source, or from an input that was emptied), then settled: compared with what was there, deaths
 * first, births last. `from` is how far the cross product of the element at hand got.
 */
export type Fill =
  | { step: "snapshot"; source: number; after: string }
  | { step: "changes"; after: string }
  | { step: "clear"; input: number; after: string | null }
  | { step: "settle"; from: readonly string[] | null }
  | { step: "done" };

export interface JobRow {
  readonly n: number;
  readonly id: string;
  readonly state: JobState;
  readonly reason: string | null;
  /** Index of the source whose event made it; CREATION where it came with the pipeline. */
  readonly source: number;
  /** By source. */
  readonly positions: readonly Position[];
  readonly fill: Fill;
  readonly carried: number;
  readonly total: number;
  readonly processed: number;
  readonly skipped: number;
  readonly failed: number;
  readonly open: number;
  readonly outputCommit: string | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly version: number;
}

/** The source of a job that was made for what lay in the inputs when the pipeline was created. */
export const CREATION = -1;

/** `carried` of a front that took over what there was to take over. */
export const ALL_CARRIED = 1;

export interface Counts {
  readonly processed?: number;
  readonly skipped?: number;
  readonly failed?: number;
  readonly open?: number;
}

type StoredJob = Omit<JobRow, "positions" | "fill"> & { positions: string; fill: string };

/** The jobs, numbered in their order. Every change that people can see raises the version, for the catalogue. */
export class JobStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** One job for an event; undefined where that event has its job. */
  insert(job: {
    id: string;
    source: number;
    at: { generation: number; seq: number };
    positions: readonly Position[];
    fill: Fill;
    now: number;
  }): number | undefined {
    const positions = JSON.stringify(
      job.positions.map(({ generation, seq, commit }): Position => ({ generation, seq, commit })),
    );
    return this.#sql.first<{ n: number }>`
      INSERT INTO jobs (n, id, state, reason, source, generation, seq, positions, fill, carried, total, processed,
        skipped, failed, open, output_commit, created_at, started_at, finished_at, version, flushed)
      VALUES ((SELECT coalesce(max(n), 0) + 1 FROM jobs), ${job.id}, 'starting', NULL, ${job.source},
        ${job.at.generation}, ${job.at.seq}, ${positions}, ${JSON.stringify(job.fill)}, 0, 0, 0, 0, 0, 0, NULL,
        ${job.now}, NULL, NULL, 1, 0)
      ON CONFLICT (source, generation, seq) DO NOTHING RETURNING n`?.n;
  }

  get(n: number): JobRow | undefined {
    return this.#one(`n = ?`, n);
  }

  byId(id: string): JobRow | undefined {
    return this.#one(`id = ?`, id);
  }

  newest(): JobRow | undefined {
    return this.#one(`n = (SELECT max(n) FROM jobs)`);
  }

  /** The oldest job that has not ended: the only one that may end. */
  front(): JobRow | undefined {
    return this.#one(`finished_at IS NULL ORDER BY n LIMIT 1`);
  }

  /** The oldest job whose datums are not all known. */
  nextToFill(): JobRow | undefined {
    return this.#one(`state = 'starting' ORDER BY n LIMIT 1`);
  }

  /** Newest first, those before an id. */
  before(id: string, limit: number): JobRow[] {
    return this.#many(`id < ? ORDER BY id DESC LIMIT ?`, id, limit);
  }

  unflushed(limit: number): JobRow[] {
    return this.#many(`flushed < version ORDER BY n LIMIT ?`, limit);
  }

  setFlushed(n: number, version: number): void {
    this.#sql.run`UPDATE jobs SET flushed = ${version} WHERE n = ${n}`;
  }

  /** A job that the catalogue has never heard of, or whose end it has not. */
  hasUrgent(): boolean {
    return (
      this.#sql.first`
        SELECT 1 FROM jobs WHERE flushed < version AND (flushed = 0 OR finished_at IS NOT NULL) LIMIT 1` !==
      undefined
    );
  }

  setFill(n: number, { fill, total }: { fill: Fill; total: number }): void {
    this.#sql.run`UPDATE jobs SET fill = ${JSON.stringify(fill)}, total = ${total} WHERE n = ${n}`;
  }

  start(n: number, now: number): void {
    this.#sql.run`
      UPDATE jobs SET state = 'running', started_at = ${now}, version = version + 1 WHERE n = ${n}`;
  }

  setCarried(n: number): void {
    this.#sql.run`UPDATE jobs SET carried = ${ALL_CARRIED} WHERE n = ${n}`;
  }

  /** Counters are kept, never counted. */
  count(n: number, { processed = 0, skipped = 0, failed = 0, open = 0 }: Counts): void {
    this.#sql.run`
      UPDATE jobs SET processed = processed + ${processed}, skipped = skipped + ${skipped},
        failed = failed + ${failed}, open = open + ${open}, version = version + 1
      WHERE n = ${n}`;
  }

  /** Ends a job: what was neither processed nor failed was skipped. */
  end(
    n: number,
    end: { state: "success" | "failure"; reason: string | null; outputCommit: string | null; now: number },
  ): void {
    this.#sql.run`
      UPDATE jobs SET state = ${end.state}, reason = ${end.reason}, output_commit = ${end.outputCommit},
        finished_at = ${end.now}, skipped = total - processed - failed, version = version + 1
      WHERE n = ${n}`;
  }

  /** Ends jobs of a pipeline that is being deleted; answers the ids of those it ended. */
  abandon({ limit, reason, now }: { limit: number; reason: string; now: number }): string[] {
    return this.#sql.all<{ id: string }>`
        UPDATE jobs SET state = 'failure', reason = ${reason}, finished_at = ${now}, version = version + 1
        WHERE n IN (SELECT n FROM jobs WHERE finished_at IS NULL ORDER BY n LIMIT ${limit}) RETURNING id`.map(
      (row) => row.id,
    );
  }

  #one(condition: string, ...values: (string | number)[]): JobRow | undefined {
    return this.#many(condition, ...values)[0];
  }

  /** `condition` is one of the literals above. */
  #many(condition: string, ...values: (string | number)[]): JobRow[] {
    return this.#sql
      .query<StoredJob>(`SELECT ${COLUMNS} FROM jobs WHERE ${condition}`, values)
      .map((row) => ({ ...row, positions: JSON.parse(row.positions), fill: JSON.parse(row.fill) }));
  }
}

const COLUMNS = `n, id, state, reason, source, positions, fill, carried, total, processed, skipped, failed, open,
  output_commit AS outputCommit, created_at AS createdAt, started_at AS startedAt, finished_at AS finishedAt, version`;
