import { encodeTime } from "ulid";
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
  readonly states?: readonly JobState[] | undefined;
  /** When they were made, by the time in their ids: from `since` on, and before `before`. */
  readonly since?: number | undefined;
  readonly before?: number | undefined;
  readonly after?: string | undefined;
  readonly limit: number;
}

interface CountFailed extends Pick<ListJobs, "pipelines" | "limit"> {
  readonly since: number;
}

interface SearchJobs extends ListJobs {
  /** Is in the name of the pipeline or in the reason; letters of ASCII match in both cases. */
  readonly search: string;
  /** So many jobs are looked at, the newest first. */
  readonly scan: number;
}

interface FoundJobs {
  readonly jobs: readonly Job[];
  /** How many were looked at up to the last one that was wanted, and the last of them. */
  readonly looked: number;
  readonly last: string | null;
}

/** A job that failed, and the first one after it of the same pipeline that succeeded. */
export interface MendedRow {
  readonly failed: string;
  readonly job: string;
  readonly at: number;
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

/** Of the time in a ULID: ids that begin with a later one are younger. */
const TIME_CHARACTERS = 10;

/** Of the jobs after one that failed, so many are looked at for one that succeeded. */
const LOOKED_AT_AFTER_FAILURE = 100;

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

  /** The pipelines that have jobs under way; undefined: there are too many jobs to tell. */
  async busyPipelines(): Promise<ReadonlySet<string> | undefined> {
    const states = JSON.stringify(UNDER_WAY);
    const rows = await this.all<{ pipeline: string; count: number }>`
      SELECT pipeline, count(*) AS count FROM (
        SELECT pipeline FROM jobs INDEXED BY jobs_by_state
        WHERE state IN (SELECT value FROM json_each(${states})) LIMIT ${MAX_UNDER_WAY})
      GROUP BY pipeline`;
    const jobs = rows.reduce((sum, { count }) => sum + count, 0);
    return jobs === MAX_UNDER_WAY ? undefined : new Set(rows.map(({ pipeline }) => pipeline));
  }

  /** A job by its id, or null. */
  async find(id: string): Promise<Job | null> {
    const row = await this.first<{ job: string }>`SELECT job FROM jobs WHERE id = ${id}`;
    return row ? JSON.parse(row.job) : null;
  }

  /** How many failed that were made since a time, counted up to `limit`; only those of the pipelines, if some are given. */
  async countFailed({ since, pipelines, limit }: CountFailed): Promise<number> {
    const ofThem = pipelines ? part`AND ${among("pipeline", pipelines)}` : raw("");
    const row = await this.first<{ count: number }>`
      SELECT count(*) AS count FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_by_state
        WHERE state = 'failure' AND id >= ${idAt(since)} ${ofThem} LIMIT ${limit})`;
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

  /** Of jobs that failed, those after which their pipeline succeeded: a walk from each by the index, at most LOOKED_AT_AFTER_FAILURE long. */
  async mended(failed: readonly Pick<Job, "id" | "pipeline">[]): Promise<MendedRow[]> {
    if (failed.length === 0) return [];
    const asked = JSON.stringify(failed.map(({ id, pipeline }) => ({ id, pipeline })));
    return await this.all`
      SELECT asked.failed, j.id AS job, j.job ->> 'finishedAt' AS at
      FROM (SELECT value ->> 'id' AS failed, value ->> 'pipeline' AS pipeline FROM json_each(${asked})) AS asked
      CROSS JOIN jobs AS j ON j.id = (
        SELECT id FROM (
          SELECT id, state FROM jobs WHERE pipeline = asked.pipeline AND id > asked.failed
          ORDER BY id LIMIT ${LOOKED_AT_AFTER_FAILURE})
        WHERE state = 'success' ORDER BY id LIMIT 1)`;
  }

  /** Newest first, those before `after`; only those of the pipelines, in the states and of the time that are given. */
  async list(query: ListJobs): Promise<Job[]> {
    const rows = await this.all<{ job: string }>`${newestOf(query)}`;
    return rows.map((row) => JSON.parse(row.job));
  }

  /**
   * Those of the list that have a text, among the first `scan` of it. No index finds a text: jobs are read until enough have
   * it, and counted once more. Where the list goes by pipelines, a state is looked for like the text.
   */
  async search({ search, scan, limit, ...query }: SearchJobs): Promise<FoundJobs> {
    const { states, ...rest } = query;
    const byPipeline = query.pipeline !== undefined || query.pipelines !== undefined;
    const inState = byPipeline && states ? part`AND ${among("state", states)}` : raw("");
    const looked = { ...(byPipeline ? rest : query), limit: scan };
    const rows = await this.all<{ id: string | null; job: string | null; looked: number }>`
      WITH found AS MATERIALIZED (
        SELECT id, job FROM (${newestOf(looked)})
        WHERE (instr(lower(pipeline), lower(${search})) > 0 OR instr(lower(job ->> 'reason'), lower(${search})) > 0)
          ${inState}
        ORDER BY id DESC LIMIT ${limit})
      SELECT id, job, 0 AS looked FROM found
      UNION ALL SELECT min(id), NULL, count(*) FROM (${newestOf(looked, {
        columns: raw("id"),
        from: part`iif((SELECT count(*) FROM found) < ${limit}, '', (SELECT min(id) FROM found))`,
      })})`;
    const all = rows.find(({ job }) => job === null);
    return {
      jobs: rows.flatMap(({ job }) => (job === null ? [] : [JSON.parse(job)])),
      looked: all?.looked ?? 0,
      last: all?.id ?? null,
    };
  }
}

/** The columns of a row that a list is made of. */
const LISTED = raw("id, pipeline, state, job");

/** Selects the newest jobs of a list, by the index that reads none, or few, that are not in it; `from`: none before that id. */
function newestOf(
  { pipeline, pipelines, states, since, before, after, limit }: ListJobs,
  { columns = LISTED, from = part`${""}` } = {},
) {
  const wanted = pipeline === undefined ? pipelines : [pipeline];
  const until =
    [after ?? AFTER_ALL_JOBS, before === undefined ? AFTER_ALL_JOBS : idAt(before)].sort()[0] ?? "";
  const inTime = part`id < ${until} AND id >= ${since === undefined ? from : part`max(${idAt(since)}, ${from})`}`;
  const end = part`ORDER BY id DESC LIMIT ${limit}`;
  const inState = states ? part`AND ${among("state", states)}` : raw("");
  const [only, ...others] = wanted ?? [];
  if (only !== undefined && others.length === 0) {
    return part`
      SELECT ${columns} FROM jobs INDEXED BY jobs_by_pipeline
      WHERE pipeline = ${only} AND ${inTime} ${inState} ${end}`;
  }
  if (wanted) {
    // Reads of each pipeline as many as could be on the page, by the index, and no job of another pipeline.
    return part`
      SELECT ${columns} FROM (
        SELECT j.id, j.pipeline, j.state, j.job
        FROM (SELECT DISTINCT value FROM json_each(${JSON.stringify(wanted)})) AS wanted
        CROSS JOIN jobs AS j ON j.id IN (
          SELECT id FROM jobs WHERE pipeline = wanted.value AND ${inTime} ${inState} ${end}))
      ${end}`;
  }
  if (!states) return part`SELECT ${columns} FROM jobs WHERE ${inTime} ${end}`;
  const lists = states.map(
    (state) => part`SELECT * FROM (SELECT ${columns} FROM jobs WHERE state = ${state} AND ${inTime} ${end})`,
  );
  const all = lists.reduce((before, list) => part`${before} UNION ALL ${list}`);
  return part`SELECT ${columns} FROM (${all}) ${end}`;
}

function among(column: string, values: readonly string[]) {
  return part`${raw(column)} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

/** Where the ids of the jobs begin that were made at a time or later. */
function idAt(time: number): string {
  return encodeTime(time, TIME_CHARACTERS);
}
