import type { JobState } from "../../../protocol/pipelines.ts";
import type { CommitPosition } from "../../branch/contract/pipelines.ts";
import type { OutboxStore } from "../../objects/outbox.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { BornPlace } from "../inputs/datum-store.ts";
import type { Position } from "../inputs/source-store.ts";

/**
 * What is left to do until a job's datums are known (work/inputs/fill.ts). `forget`, `snapshot`: the inputs are read whole;
 * `changes`: the rest of a large commit; `clear`: a branch was deleted. Each of these collects paths. `settle`: the
 * paths are compared with what was there (work/inputs/fill.ts); `from` is how far the cross product of the element
 * at hand got.
 */
export type Fill =
  | { step: "forget"; datums?: BornPlace | null }
  | { step: "snapshot"; view: number; after: string }
  | { step: "changes"; after: string }
  | { step: "clear"; input: number; after: string | null }
  | { step: "settle"; from: readonly string[] | null }
  | { step: "done" };

/** All paths are collected: what is left is to compare them, from the first on. */
export const ALL_COLLECTED: Fill = { step: "settle", from: null };

export interface JobRow {
  readonly n: number;
  readonly id: string;
  readonly state: JobState;
  readonly reason: string | null;
  /** The version of the specification that it was made for. */
  readonly revision: number;
  /** Index of the source whose event made it; PIPELINE if it came with the creation, start or update. */
  readonly source: number;
  /** By source. */
  readonly positions: readonly Position[];
  readonly fill: Fill;
  readonly filled: number;
  /** TOOK_OVER once it is the job's turn. */
  readonly tookOver: number;
  readonly turnAt: number | null;
  /** 1: the branch may have committed its output without our knowing, so that only the branch's answer ends it. */
  readonly committing: number;
  /** Since when it does; null: not yet. */
  readonly committingAt: number | null;
  readonly total: number;
  readonly processed: number;
  readonly skipped: number;
  readonly failed: number;
  /** Those of the failed ones that failed by their own fault alone. */
  readonly bad: number;
  readonly open: number;
  /** Its commit to the errors branch. */
  readonly errorsCommit: string | null;
  readonly outputCommit: string | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly version: number;
  /** The version that the catalogue has; 0: it has never heard of the job. */
  readonly flushed: number;
}

/** The source of a job that was made for what lay in the inputs when the pipeline was created, started or updated. */
export const PIPELINE = -1;

/** `tookOver` of a job that has queued what the jobs before it left undone: its turn has begun. */
export const TOOK_OVER = 1;

/** A job whose output commit is not known to be gone. */
interface KeptJob {
  readonly n: number;
  readonly outputCommit: string;
}

export interface Counts {
  readonly processed?: number;
  readonly skipped?: number;
  readonly failed?: number;
  readonly bad?: number;
  readonly open?: number;
}

/** How a job ends. */
export interface JobEnd {
  readonly state: "success" | "failure" | "killed";
  readonly reason: string | null;
  readonly skipped: number;
  readonly now: number;
}

/**
 * In its turn, whatever is not open, processed or failed has its result. Before, only what a job's own new datums skip
 * is known: what it inherits may still fail in a job before it.
 */
export function skippedOf(job: JobRow, oldest: JobRow | undefined): number {
  const known = job.finishedAt === null && job.n === oldest?.n && job.tookOver === TOOK_OVER;
  return known ? job.total - job.processed - job.failed - job.open : job.skipped;
}

type StoredJob = Omit<JobRow, "positions" | "fill"> & { positions: string; fill: string };

/** The jobs, numbered in their order. Every change that people can see raises the version, for the catalogue. */
export class JobStore extends Store {
  readonly #outbox: OutboxStore<"jobs">;
  /** What is counted by jobs while that is put together; undefined: each count is written by itself. */
  #counted: Map<number, Required<Counts>> | undefined;

  constructor(sql: Sql, outbox: OutboxStore<"jobs">) {
    super(sql);
    this.#outbox = outbox;
  }

  /** One job for an event; undefined if that event has its job. */
  insert(
    job: Pick<JobRow, "id" | "revision" | "source" | "positions" | "fill"> & {
      at: CommitPosition;
      now: number;
    },
  ): number | undefined {
    const positions = JSON.stringify(
      job.positions.map(
        ({ generation, seq, commit, lineage }): Position => ({
          ...{ generation, seq, commit },
          ...(lineage && { lineage }),
        }),
      ),
    );
    const made = this.sql.first<{ n: number }>`
      INSERT INTO jobs (n, id, state, revision, source, generation, seq, positions, fill, filled, tookOver, committing,
        reaping, total, processed, skipped, failed, open, createdAt, version, flushed)
      VALUES ((SELECT coalesce(max(n), 0) + 1 FROM jobs), ${job.id}, 'starting', ${job.revision}, ${job.source},
        ${job.at.generation}, ${job.at.seq}, ${positions}, ${JSON.stringify(job.fill)}, 0, 0, 0,
        0, 0, 0, 0, 0, 0, ${job.now}, 1, 0)
      ON CONFLICT (revision, source, generation, seq) DO NOTHING RETURNING n`?.n;
    if (made !== undefined) this.#changed("fill");
    return made;
  }

  get(n: number): JobRow | undefined {
    return this.#one(`n = ?`, n);
  }

  /** Whether it is there and has not ended. */
  isUnfinished(n: number): boolean {
    return this.sql.has`SELECT 1 FROM jobs WHERE n = ${n} AND finishedAt IS NULL`;
  }

  /** Whether it is there and its datums are not all known. */
  isUnfilled(n: number): boolean {
    return this.sql.has`SELECT 1 FROM jobs WHERE n = ${n} AND filled = 0`;
  }

  byId(id: string): JobRow | undefined {
    return this.#one(`id = ?`, id);
  }

  newest(): JobRow | undefined {
    return this.#one(`n = (SELECT max(n) FROM jobs)`);
  }

  /** The oldest job that has not ended: the only one that may come to its end. */
  oldest(): JobRow | undefined {
    return this.#one(`finishedAt IS NULL ORDER BY n LIMIT 1`);
  }

  newestUnfinished(): JobRow | undefined {
    return this.#one(`finishedAt IS NULL ORDER BY n DESC LIMIT 1`);
  }

  /** The oldest job whose datums are not all known. */
  nextToFill(): JobRow | undefined {
    return this.#one(`filled = 0 ORDER BY n LIMIT 1`);
  }

  /** The job whose output commit may have been made without our knowing; there is never more than one. */
  committing(): JobRow | undefined {
    const oldest = this.oldest();
    return oldest?.committing === 1 ? oldest : undefined;
  }

  /** Jobs that have ended with attempts that are yet to be called off, oldest first. */
  toCallOff(limit: number): number[] {
    return this.sql.all<{ n: number }>`
      SELECT n FROM jobs WHERE reaping = 1 ORDER BY n LIMIT ${limit}`.map((row) => row.n);
  }

  /**
   * The newest job whose turn has begun: what is left undone before it is wanted no more. None does that waits for the oldest
   * one, and those may be many.
   */
  newestWithTurn(): number {
    return this.sql.number`
      SELECT n FROM jobs WHERE tookOver = ${TOOK_OVER} AND n <= ifnull(
        (SELECT n FROM jobs INDEXED BY jobs_unfinished WHERE finishedAt IS NULL ORDER BY n LIMIT 1),
        ${Number.MAX_SAFE_INTEGER})
      ORDER BY n DESC LIMIT 1`;
  }

  /** Newest first, those before an id; none before the job `from`. */
  before(id: string, { from = 0, limit }: { from?: number; limit: number }): JobRow[] {
    return this.#many(`id < ? AND n >= ? ORDER BY id DESC LIMIT ?`, id, from, limit);
  }

  /** The last job before a number that succeeded, if it is not before `from`. */
  succeededBefore(n: number, { from }: { from: number }): JobRow | undefined {
    return this.#one(`n < ? AND n >= ? AND state = 'success' ORDER BY n DESC LIMIT 1`, n, from);
  }

  /** The first job after a number that succeeded, if it is not after `to`. */
  succeededAfter(n: number, { to }: { to: number }): JobRow | undefined {
    return this.#one(`n > ? AND n <= ? AND state = 'success' ORDER BY n LIMIT 1`, n, to);
  }

  /** The job that an event of a source made in a version of the specification. */
  ofEvent(
    { source, generation, seq }: CommitPosition & { source: number },
    revision: number,
  ): JobRow | undefined {
    const event = [revision, source, generation, seq];
    return this.#one(`revision = ? AND source = ? AND generation = ? AND seq = ?`, ...event);
  }

  /** The number of the newest one; 0 if there is none. */
  newestNumber(): number {
    return this.sql.number`SELECT max(n) FROM jobs`;
  }

  /** The id of the last one before a job. */
  idBefore(n: number): string | undefined {
    return this.sql.first<{ id: string }>`SELECT id FROM jobs WHERE n < ${n} ORDER BY n DESC LIMIT 1`?.id;
  }

  /** Those whose output commit is not known to be gone, after a job, oldest first. */
  keptAfter(n: number, limit: number): KeptJob[] {
    return this.sql.all<KeptJob>`
      SELECT n, outputCommit FROM jobs INDEXED BY jobs_kept
      WHERE outputCommit IS NOT NULL AND released = 0 AND n > ${n} ORDER BY n LIMIT ${limit}`;
  }

  /** The output branch keeps the commits of these jobs no more. */
  release(numbers: readonly number[]): void {
    this.sql.run`
      UPDATE jobs SET released = 1 WHERE n IN (SELECT value FROM json_each(${JSON.stringify(numbers)}))`;
  }

  /**
   * Removes some before a job that have no output commit which is kept. All of them have ended, as far as the catalogue
   * knows, too. Returns whether there may be more.
   */
  removeSpare(before: number, limit: number): boolean {
    const rows = this.sql.all`
      DELETE FROM jobs WHERE n IN (
        SELECT n FROM jobs INDEXED BY jobs_spare
        WHERE (outputCommit IS NULL OR released = 1) AND n < ${before}
          AND finishedAt IS NOT NULL AND filled = 1 AND reaping = 0 AND flushed >= version
        ORDER BY n LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }

  unflushed(limit: number): JobRow[] {
    return this.#many(`flushed < version ORDER BY n LIMIT ?`, limit);
  }

  setFlushed(n: number, version: number): void {
    this.sql.run`UPDATE jobs SET flushed = ${version} WHERE n = ${n}`;
  }

  /** The catalogue is to hear again of these jobs. */
  setUnflushed(ids: readonly string[]): void {
    this.sql.run`
      UPDATE jobs SET flushed = 0 WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
    this.#changed();
  }

  /** A job that the catalogue has never heard of, or whose end it has not. */
  hasUrgent(): boolean {
    return this.sql.has`
      SELECT 1 FROM jobs WHERE flushed < version AND (flushed = 0 OR finishedAt IS NOT NULL) LIMIT 1`;
  }

  setFill(n: number, { fill, total }: { fill: Fill; total: number }): void {
    this.sql.run`UPDATE jobs SET fill = ${JSON.stringify(fill)}, total = ${total} WHERE n = ${n}`;
  }

  /** Its datums are known: it runs, unless it has ended before. */
  start(n: number, now: number): void {
    this.sql.run`
      UPDATE jobs SET filled = 1, version = version + 1,
        state = CASE WHEN finishedAt IS NULL THEN 'running' ELSE state END,
        startedAt = CASE WHEN finishedAt IS NULL THEN ${now} END
      WHERE n = ${n}`;
    this.#changed("jobs");
  }

  /** Its datums will not be worked out: nothing builds upon it any more. */
  setFilled(n: number): void {
    this.sql.run`UPDATE jobs SET filled = 1 WHERE n = ${n}`;
  }

  /** It took over what there was to take over: from now on it is its turn. `timeoutMs`: null: it may take any time. */
  beginTurn(n: number, { now, timeoutMs }: { now: number; timeoutMs: number | null }): void {
    this.sql.run`UPDATE jobs SET tookOver = ${TOOK_OVER}, turnAt = ${now} WHERE n = ${n}`;
    if (timeoutMs !== null) this.wake("jobTime", now + timeoutMs);
    this.#changed();
  }

  /** `since`: from then on the branch may commit its output; null: the mark is taken back. Returns false if it has ended. */
  setCommitting(n: number, since: number | null): boolean {
    return this.sql.has`
      UPDATE jobs SET committing = ${since === null ? 0 : 1}, committingAt = ${since}
      WHERE n = ${n} AND finishedAt IS NULL RETURNING n`;
  }

  /** Its output is committed, which stays so however it ends. */
  setCommitted(n: number, commit: string | null): void {
    this.sql.run`UPDATE jobs SET outputCommit = ${commit}, version = version + 1 WHERE n = ${n}`;
    this.#changed();
  }

  /** What it changes in the errors branch is committed. */
  setErrorsCommit(n: number, commit: string | null): void {
    this.sql.run`UPDATE jobs SET errorsCommit = ${commit}, version = version + 1 WHERE n = ${n}`;
    this.#changed();
  }

  /** Its output commit is done with, what remains is egress. */
  setEgressing(n: number): void {
    this.sql.run`
      UPDATE jobs SET state = 'egressing', committing = 0, version = version + 1
      WHERE n = ${n} AND finishedAt IS NULL`;
    this.#changed();
  }

  /** Keeps what its readers should know if it ends well. */
  remark(n: number, remark: string): void {
    this.sql.run`UPDATE jobs SET reason = ${remark} WHERE n = ${n} AND finishedAt IS NULL`;
  }

  setCalledOff(n: number): void {
    this.sql.run`UPDATE jobs SET reaping = 0 WHERE n = ${n}`;
    // A later job can take over what this one left undone.
    this.wake("jobs");
  }

  /** All that `work` counts of a job is written at once, at its end, or when the job is looked at. */
  countTogether(work: () => void): void {
    this.#counted = new Map();
    try {
      work();
      this.#writeCounted();
    } finally {
      this.#counted = undefined;
    }
  }

  /** Counters are kept, never counted. Those of a job that has ended stay as they are. */
  count(n: number, { processed = 0, skipped = 0, failed = 0, bad = 0, open = 0 }: Counts): void {
    const counts = { processed, skipped, failed, bad, open };
    const before = this.#counted?.get(n);
    const sum = before ? added(before, counts) : counts;
    if (this.#counted) this.#counted.set(n, sum);
    else this.#write(n, sum);
    if (open < 0) this.#changed("jobs");
    else this.#changed();
  }

  #writeCounted(): void {
    const counted = [...(this.#counted ?? [])];
    this.#counted?.clear();
    for (const [n, counts] of counted) this.#write(n, counts);
  }

  #write(n: number, { processed, skipped, failed, bad, open }: Required<Counts>): void {
    this.sql.run`
      UPDATE jobs SET processed = processed + ${processed}, skipped = skipped + ${skipped},
        failed = failed + ${failed}, bad = bad + ${bad}, open = open + ${open}, version = version + 1
      WHERE n = ${n} AND finishedAt IS NULL`;
  }

  /** Ends a job; returns false if it has ended. Open attempts are to be called off. */
  end(n: number, end: JobEnd): boolean {
    this.#writeCounted();
    const isEnded = this.sql.has`
      UPDATE jobs SET state = ${end.state}, reason = ${end.reason}, finishedAt = ${end.now},
        skipped = ${end.skipped}, committing = 0, reaping = open > 0, version = version + 1
      WHERE n = ${n} AND finishedAt IS NULL RETURNING n`;
    if (isEnded) this.#changed("jobs", "callOff", "trim", "lowWaterMarks");
    return isEnded;
  }

  /** Jobs that have not ended, oldest first. */
  unfinished(limit: number): JobRow[] {
    return this.#many(`finishedAt IS NULL ORDER BY n LIMIT ?`, limit);
  }

  /** The next of those after one. */
  unfinishedAfter(n: number, limit: number): JobRow[] {
    return this.#many(`finishedAt IS NULL AND n > ? ORDER BY n LIMIT ?`, n, limit);
  }

  /** Jobs whose datums are not all known, oldest first. */
  unfilled(limit: number): JobRow[] {
    return this.#many(`filled = 0 ORDER BY n LIMIT ?`, limit);
  }

  /** Kept for whoever asks twice for the same, since an answer was lost: the number of the job that the last retry made. */
  setRetry({ asked, every }: Retry, made: number): void {
    this.sql.run`
      INSERT OR REPLACE INTO last_retry (one, asked, every, made) VALUES (1, ${asked}, ${every ? 1 : 0}, ${made})`;
  }

  /** The number of the job that was made, if the last retry asked for just this. */
  madeByRetry({ asked, every }: Retry): number | undefined {
    return this.sql.first<{ made: number }>`
      SELECT made FROM last_retry WHERE asked = ${asked} AND every = ${every ? 1 : 0}`?.made;
  }

  /** The catalogue is to hear of it, and these loops have something to go on with. */
  #changed(...loops: readonly string[]): void {
    // At once, and all that waits: `unflushed` says what that is.
    this.#outbox.mark("jobs", { event: "", due: 0 });
    for (const loop of loops) this.wake(loop);
  }

  #one(condition: string, ...values: (string | number)[]): JobRow | undefined {
    return this.#many(condition, ...values)[0];
  }

  /** `condition` is one of the literals above. */
  #many(condition: string, ...values: (string | number)[]): JobRow[] {
    this.#writeCounted();
    return this.sql
      .query<StoredJob>(`SELECT ${COLUMNS} FROM jobs WHERE ${condition}`, values)
      .map((row) => ({ ...row, positions: JSON.parse(row.positions), fill: JSON.parse(row.fill) }));
  }
}

function added(a: Required<Counts>, b: Required<Counts>): Required<Counts> {
  return {
    processed: a.processed + b.processed,
    skipped: a.skipped + b.skipped,
    failed: a.failed + b.failed,
    bad: a.bad + b.bad,
    open: a.open + b.open,
  };
}

const COLUMNS = `n, id, state, reason, revision, source, positions, fill, filled, tookOver, turnAt, committing,
  committingAt, total, processed, skipped, failed, bad, open, errorsCommit,
  outputCommit, createdAt, startedAt, finishedAt, version, flushed`;

/** So many of the newest jobs keep what they ran, datum by datum; older ones keep only the counts. */
export const KEPT_JOBS = 1000;

/** The oldest job that keeps what it ran. What a job left undone is wanted until a later one has taken it over. */
export function oldestShown(jobs: JobStore, keptJobs: number): number {
  const newest = jobs.newestNumber();
  const kept = Math.min(KEPT_JOBS, keptJobs);
  return newest <= kept ? 0 : Math.min(newest - kept, jobs.newestWithTurn());
}

/** The oldest job that is listed and found by its id: `keptJobs` are, and all that have not ended. */
export function oldestListed(jobs: JobStore, keptJobs: number): number {
  const newest = jobs.newestNumber();
  return newest <= keptJobs ? 0 : Math.min(newest - keptJobs + 1, jobs.oldest()?.n ?? newest);
}

/** What a job was made to do again. */
export interface Retry {
  /** The job that was asked for. */
  readonly asked: string;
  /** Whether every datum runs again; else only what failed. */
  readonly every: boolean;
}
