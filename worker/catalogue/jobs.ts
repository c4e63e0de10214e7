import type { Job, JobState } from "../../protocol/pipelines.ts";

export interface JobRecord {
  readonly job: Job;
  /** Grows with each change of the job. */
  readonly version: number;
}

export interface ListJobs {
  readonly pipeline?: string;
  readonly pipelines?: readonly string[];
  readonly state?: JobState;
  readonly after?: string;
  readonly limit: number;
}

/** Most jobs in one write. */
export const MAX_JOBS_PER_WRITE = 50;

export const JOBS_PROBE = "SELECT id, pipeline, version, state, job FROM jobs LIMIT 0";

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

  /** A job by its id, or null. */
  async find(id: string): Promise<Job | null> {
    const row = await this.#db
      .prepare(`SELECT job FROM jobs WHERE id = ?1`)
      .bind(id)
      .first<{ job: string }>();
    return row ? JSON.parse(row.job) : null;
  }

  /** Newest first, those before `after`; only those of the pipelines, and in the state, that are given. */
  async list({ pipeline, pipelines, state, after = "~", limit }: ListJobs): Promise<Job[]> {
    const wanted = pipeline === undefined ? pipelines : [pipeline];
    const inState = state === undefined ? "" : "AND state = ?3";
    const values = [after, limit, ...(state === undefined ? [] : [state])];
    const page = `id < ?1 ${inState} ORDER BY id DESC LIMIT ?2`;
    // Reads of each pipeline as many as could be on the page, by the index, and no job of another pipeline.
    const sql =
      wanted === undefined
        ? `SELECT job FROM jobs WHERE ${page}`
        : `SELECT j.job FROM (SELECT DISTINCT value FROM json_each(?${values.length + 1})) AS wanted CROSS JOIN jobs AS j ON j.id IN (
             SELECT id FROM jobs WHERE pipeline = wanted.value AND ${page})
           ORDER BY j.id DESC LIMIT ?2`;
    const { results } = await this.#db
      .prepare(sql)
      .bind(...values, ...(wanted === undefined ? [] : [JSON.stringify(wanted)]))
      .all<{ job: string }>();
    return results.map((row) => JSON.parse(row.job));
  }
}
