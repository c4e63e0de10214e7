import type { Job, JobState } from "../../protocol/pipelines.ts";

export interface JobRecord {
  readonly job: Job;
  /** Grows with each change of the job. */
  readonly version: number;
}

/** Most jobs in one write. */
export const MAX_JOBS_PER_WRITE = 50;

/** The jobs of all pipelines, to find one by its id and to list across pipelines. */
export class JobTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Writes what a Pipeline object says of its jobs, at most MAX_JOBS_PER_WRITE; older versions change nothing. */
  async record(records: readonly JobRecord[]): Promise<void> {
    if (records.length === 0) return;
    const statement = this.#db.prepare(
      `INSERT INTO jobs (id, pipeline, version, state, job) VALUES (?1, ?2, ?3, ?4, ?5)
       ON CONFLICT (id) DO UPDATE SET version = excluded.version, state = excluded.state, job = excluded.job
       WHERE excluded.version > jobs.version`,
    );
    await this.#db.batch(
      records.map(({ job, version }) =>
        statement.bind(job.id, job.pipeline, version, job.state, JSON.stringify(job)),
      ),
    );
  }

  /** The pipeline that a job belongs to, or null. */
  async pipelineOf(id: string): Promise<string | null> {
    const row = await this.#db
      .prepare(`SELECT pipeline FROM jobs WHERE id = ?1`)
      .bind(id)
      .first<{ pipeline: string }>();
    return row?.pipeline ?? null;
  }

  /** Newest first, those before `after`. */
  async list(query: { pipeline?: string; state?: JobState; after?: string; limit: number }): Promise<Job[]> {
    const conditions = ["id < ?1"];
    const values: unknown[] = [query.after ?? "~"];
    for (const column of ["pipeline", "state"] as const) {
      const value = query[column];
      if (value === undefined) continue;
      values.push(value);
      conditions.push(`${column} = ?${values.length}`);
    }
    values.push(query.limit);
    const { results } = await this.#db
      .prepare(
        `SELECT job FROM jobs WHERE ${conditions.join(" AND ")} ORDER BY id DESC LIMIT ?${values.length}`,
      )
      .bind(...values)
      .all<{ job: string }>();
    return results.map((row) => JSON.parse(row.job));
  }
}
