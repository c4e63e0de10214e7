import type { Job, JobState, Run } from "../../protocol/pipelines.ts";
import { watchSpace } from "./space.ts";
import { part, raw, Table } from "./table.ts";

export interface JobRecord {
  readonly job: Job;
  /** Grows with each change of the job. */
  readonly version: number;
}

export interface ListJobs {
  readonly pipeline?: string | undefined;
  readonly pipelines?: readonly string[] | undefined;
  readonly state?: JobState | undefined;
  readonly after?: string | undefined;
  readonly limit: number;
}

interface RemoveJobs {
  readonly pipeline: string;
  readonly after?: string;
  readonly upTo?: string;
}

interface KnownJobs {
  readonly pipeline: string;
  /** An id; "" if there is no job. */
  readonly newest: string;
  readonly jobs: readonly { readonly id: string; readonly version: number }[];
}

/** A job of a pipeline, without what it read and made. */
export interface RunRow extends Run {
  readonly pipeline: string;
}

/** In each state that is not the last, so many of the oldest jobs are looked at for what is under way. */
const MAX_UNDER_WAY = 1000;
/** The states of a job that has not ended. */
export const UNDER_WAY = ["starting", "running", "egressing"] satisfies readonly JobState[];

/** Most jobs in one write. */
export const MAX_JOBS_PER_WRITE = 50;

/** After the id of every job. */
const AFTER_ALL_JOBS = "~";

/** Most jobs that one statement removes: D1 answers nobody else meanwhile. */
const REMOVED_AT_ONCE = 500;

export const JOBS_PROBE = "SELECT id, pipeline, version, state, job FROM jobs LIMIT 0";

/** The jobs of all pipelines, to find one by its id and to list across pipelines. */
export class JobTable extends Table {
  /**
   * Writes what a Pipeline object says of its jobs, at most MAX_JOBS_PER_WRITE; older versions change nothing. `uid`: of
   * the pipeline. Once the catalogue knows that this one is deleted, a write that was under way brings none of its jobs back.
   */
  async record(records: readonly JobRecord[], { uid }: { uid: string }): Promise<void> {
    if (records.length === 0) return;
    const answers = await this.batch(
      records.map(
        ({ job, version }) => this.statement`
          INSERT INTO jobs (id, pipeline, version, state, job)
          SELECT ${job.id}, ${job.pipeline}, ${version}, ${job.state}, ${JSON.stringify(job)}
          WHERE NOT EXISTS (SELECT 1 FROM pipelines WHERE name = ${job.pipeline} AND uid = ${uid} AND deleted = 1)
          ON CONFLICT (id) DO UPDATE SET version = excluded.version, state = excluded.state, job = excluded.job
          WHERE excluded.version > jobs.version`,
      ),
    );
    watchSpace(answers.at(-1));
  }

  /** Removes some of the jobs of a pipeline, the oldest first, after an id and up to another one. Returns whether there may be more. */
  async remove({ pipeline, after = "", upTo = AFTER_ALL_JOBS }: RemoveJobs): Promise<boolean> {
    const removed = await this.all`
      DELETE FROM jobs WHERE id IN (
        SELECT id FROM jobs
        WHERE pipeline = ${pipeline} AND id > ${after} AND id <= ${upTo} ORDER BY id LIMIT ${REMOVED_AT_ONCE})
      RETURNING id`;
    return removed.length === REMOVED_AT_ONCE;
  }

  /** Forgets jobs, and states of jobs, that come after what their pipeline knows: its object was set back. */
  async setBack({ pipeline, newest, jobs }: KnownJobs): Promise<void> {
    const known = JSON.stringify(jobs.map(({ id, version }) => ({ id, version })));
    await this.run`
      DELETE FROM jobs WHERE pipeline = ${pipeline} AND (id > ${newest} OR EXISTS (
        SELECT 1 FROM json_each(${known}) AS own
        WHERE own.value ->> 'id' = jobs.id AND jobs.version > own.value ->> 'version'))`;
  }

  /** The pipeline that a job belongs to, or null. */
  async pipelineOf(id: string): Promise<string | null> {
    const row = await this.first<{ pipeline: string }>`SELECT pipeline FROM jobs WHERE id = ${id}`;
    return row?.pipeline ?? null;
  }

  /** A job by its id, or null. */
  async find(id: string): Promise<Job | null> {
    const row = await this.first<{ job: string }>`SELECT job FROM jobs WHERE id = ${id}`;
    return row ? JSON.parse(row.job) : null;
  }

  /** How many failed that were made after an id, counted up to `limit`; only those of the pipelines, if some are given. */
  async countFailed({ after, pipelines, limit }: Omit<ListJobs, "pipeline" | "state">): Promise<number> {
    const among = pipelines
      ? part`AND pipeline IN (SELECT value FROM json_each(${JSON.stringify(pipelines)}))`
      : raw("");
    const row = await this.first<{ count: number }>`
      SELECT count(*) AS count FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_by_state
        WHERE state = 'failure' AND id > ${after ?? ""} ${among} LIMIT ${limit})`;
    return row?.count ?? 0;
  }

  /** Of each of the pipelines its newest jobs, newest first: as many rows are read as are shown. */
  async newest(pipelines: readonly string[], { limit }: { readonly limit: number }): Promise<RunRow[]> {
    if (pipelines.length === 0) return [];
    return await this.all`
      SELECT j.id, j.pipeline, j.state, j.job ->> 'createdAt' AS createdAt, j.job ->> 'startedAt' AS startedAt,
        j.job ->> 'finishedAt' AS finishedAt
      FROM (SELECT DISTINCT value FROM json_each(${JSON.stringify(pipelines)})) AS wanted
      CROSS JOIN jobs AS j ON j.id IN (
        SELECT id FROM jobs WHERE pipeline = wanted.value ORDER BY id DESC LIMIT ${limit})
      ORDER BY j.id DESC`;
  }

  /** The oldest job of each pipeline that has not ended, and how many it has of them. It reads no job that has ended, and at most 3,000 that have not. */
  async underWay(): Promise<(Pick<Job, "id" | "pipeline" | "state"> & { readonly jobs: number })[]> {
    const states = UNDER_WAY.map(
      (state) =>
        `SELECT * FROM (SELECT id, pipeline, state FROM jobs WHERE state = '${state}' ORDER BY id LIMIT ${MAX_UNDER_WAY})`,
    );
    // With min(), SQLite takes the other columns from the row that has it.
    return await this.all`
      SELECT min(id) AS id, pipeline, state, count(*) AS jobs FROM (${raw(states.join(" UNION ALL "))})
      GROUP BY pipeline`;
  }

  /** Newest first, those before `after`; only those of the pipelines, and in the state, that are given. */
  async list({ pipeline, pipelines, state, after = AFTER_ALL_JOBS, limit }: ListJobs): Promise<Job[]> {
    const wanted = pipeline === undefined ? pipelines : [pipeline];
    const inState = state === undefined ? raw("") : part`AND state = ${state}`;
    const page = part`id < ${after} ${inState} ORDER BY id DESC LIMIT ${limit}`;
    // Reads of each pipeline as many as could be on the page, by the index, and no job of another pipeline.
    const rows = wanted
      ? await this.all<{ job: string }>`
          SELECT j.job FROM (SELECT DISTINCT value FROM json_each(${JSON.stringify(wanted)})) AS wanted
          CROSS JOIN jobs AS j ON j.id IN (SELECT id FROM jobs WHERE pipeline = wanted.value AND ${page})
          ORDER BY j.id DESC LIMIT ${limit}`
      : await this.all<{ job: string }>`SELECT job FROM jobs WHERE ${page}`;
    return rows.map((row) => JSON.parse(row.job));
  }
}
