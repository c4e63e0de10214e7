import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { JobStore } from "../jobs/job-store.ts";
import type { PipelineStore } from "../lifecycle/pipeline-store.ts";
import type { LostLeaseStore } from "./upload-store.ts";

export interface AttemptRow {
  readonly job: number;
  readonly id: string;
  readonly key: string;
  /** Tries that failed, and those of them that failed through no fault of the datum. */
  readonly tries: number;
  readonly troubles: number;
  readonly lost: number;
}

/** One whose lease ran out. `node`: that had it. */
export interface ExpiredAttempt extends AttemptRow {
  readonly node: string | null;
}

/** One that a lease holds. */
export interface HeldAttempt extends AttemptRow {
  /** The lease call that it is of. */
  readonly call: number;
  readonly node: string | null;
  /** The version of the specification that its job was made for. */
  readonly revision: number;
}

export interface FailedAttempt extends AttemptRow {
  readonly exitCode: number | null;
  readonly reason: string | null;
  readonly log: string | null;
}

/** A failed one with the last characters of what it printed. */
export interface FailedTail extends DatumName {
  readonly node: string | null;
  readonly exitCode: number | null;
  readonly reason: string | null;
  readonly tail: string | null;
}

/** One that runs. `lease`: the ULID of its lease. */
export interface RunningAttempt extends DatumName {
  readonly node: string | null;
  readonly lease: string;
  /** How many of the job run. */
  readonly count: number;
}

/** Of the end of a log, enough for its last line. */
const TAIL_CHARACTERS = 500;

/** An attempt for people. */
export interface ShownAttempt extends FailedAttempt {
  readonly state: "queued" | "waiting" | "running" | "success" | "skipped" | "failed" | "killed";
  readonly node: string | null;
  readonly finishedAt: number | null;
}

/** One that succeeded, with how long its command took. */
export interface RanAttempt {
  readonly finishedAt: number;
  readonly id: string;
  readonly key: string;
  readonly node: string | null;
  readonly millis: number;
}

/** A datum by what it is and by where it stands among the datums of its job. */
export interface DatumName {
  readonly id: string;
  readonly key: string;
}

export interface Fault {
  readonly exitCode: number | null;
  readonly reason: string;
  readonly log: string;
}

/** The lease of an attempt says of which one it is, so that it is found without an index. `ulid`: of the lease alone. */
export function leaseOf(ulid: string, { job, id }: Pick<AttemptRow, "job" | "id">): string {
  return `${ulid}.${job}.${id}`;
}

const ULID_LENGTH = 26;

/** The attempt that a lease is of; none has it if it is not one of an attempt. */
function placeOf(lease: string): { readonly job: number; readonly id: string } {
  const [, job = "", id = ""] = lease.split(".");
  return { job: Number(job) || 0, id };
}

/**
 * Of (?1 id, ?2 the job whose turn it is, or was last): the attempts of a datum that are not settled, by job. A job has one if
 * the datum was born at it, or if it took it over, which is done in its turn. What earlier jobs took over is settled by then.
 */
const OPEN = `
  SELECT a.job, a.state FROM (SELECT born AS job FROM datums WHERE id = ?1 UNION SELECT ?2) AS had
  CROSS JOIN attempts AS a ON a.job = had.job AND a.id = ?1 WHERE a.finishedAt IS NULL ORDER BY a.job`;

/** Most attempts of one list of the queue, all of which are read whenever some of them are leased. */
const LISTED = 50;
/** Lists of the queue whose attempts are looked at one by one to count them: a fleet may ask for ten thousand. */
const COUNTED = 50;

/** Of (?1 JSON of ids, ?2 job): those attempts of the job that are queued, by key. */
const QUEUED = `
  SELECT a.job AS job, a.id AS id, a.key AS key, a.tries AS tries, a.troubles AS troubles, a.lost AS lost
  FROM json_each(?1) AS named CROSS JOIN attempts AS a ON a.job = ?2 AND a.id = named.value AND a.state = 'queued'
  ORDER BY a.key`;

/** Of lease calls `c`: `a`, the attempts that are leased still which they leased. A later call may have leased one, too. */
export const LEASED = `
  lease_calls AS c CROSS JOIN json_each(c.attempts) AS named
  CROSS JOIN attempts AS a ON a.job = named.value ->> 0 AND a.id = named.value ->> 1 AND a.leaseUntil IS NOT NULL`;

/**
 * What runs, and what failed, per job. Of all open attempts of one datum id at most one is queued or running, that of
 * the oldest job unless another one runs already; the others wait for it.
 */
export class AttemptStore extends Store {
  readonly #jobs: JobStore;
  readonly #lost: LostLeaseStore;
  readonly #pipeline: PipelineStore;

  constructor(
    sql: Sql,
    { jobs, lost, pipeline }: { jobs: JobStore; lost: LostLeaseStore; pipeline: PipelineStore },
  ) {
    super(sql);
    this.#jobs = jobs;
    this.#lost = lost;
    this.#pipeline = pipeline;
  }

  /** Datums that a job has to run. Does nothing about those that the job has already. */
  add(job: number, datums: readonly DatumName[]): void {
    const states = datums.map((datum) => this.#add(job, datum));
    const open = states.filter((state) => state !== undefined).length;
    if (open > 0) this.#jobs.count(job, { open });
    this.#queue(
      job,
      datums.flatMap(({ id }, index) => (states[index] === "queued" ? [id] : [])),
    );
  }

  /** Returns undefined if the job has it already. */
  #add(job: number, { id, key }: DatumName): "queued" | "waiting" | undefined {
    if (this.sql.has`SELECT 1 FROM attempts WHERE job = ${job} AND id = ${id}`) return undefined;
    const other = this.#open(id).find(({ state }) => state !== "waiting");
    const overtakes = other?.state === "queued" && other.job > job;
    if (overtakes)
      this.sql.run`UPDATE attempts SET state = 'waiting' WHERE job = ${other.job} AND id = ${id}`;
    const state = other && !overtakes ? "waiting" : "queued";
    this.sql.run`
      INSERT INTO attempts (job, id, key, state, tries, lost) VALUES (${job}, ${id}, ${key}, ${state}, 0, 0)`;
    return state;
  }

  /** These attempts of a job are queued: they are found by their lists. */
  #queue(job: number, ids: readonly string[]): void {
    for (let start = 0; start < ids.length; start += LISTED) {
      this.sql.run`
        INSERT INTO queue (job, number, ids)
        SELECT ${job}, ifnull(max(number), 0) + 1, ${JSON.stringify(ids.slice(start, start + LISTED))}
        FROM queue WHERE job = ${job}`;
    }
  }

  /** Queues a datum again whose result was lost after it had succeeded. */
  redo(job: number, { id, key }: DatumName): void {
    const done = this.sql.first<{ state: string }>`
      SELECT state FROM attempts WHERE job = ${job} AND id = ${id} AND finishedAt IS NOT NULL`;
    if (!done) {
      this.add(job, [{ id, key }]);
      return;
    }
    this.sql.run`
      UPDATE attempts SET state = 'queued', tries = 0, troubles = 0, finishedAt = NULL WHERE job = ${job} AND id = ${id}`;
    this.#queue(job, [id]);
    this.#jobs.count(job, { open: 1, processed: done.state === "success" ? -1 : 0 });
  }

  /** A datum without a result in a job that has ended before it could run: a later job takes it over. */
  addKilled(job: number, { id, key }: DatumName, { now }: { now: number }): void {
    this.sql.run`
      INSERT OR IGNORE INTO attempts (job, id, key, state, tries, lost, finishedAt)
      VALUES (${job}, ${id}, ${key}, 'killed', 0, 0, ${now})`;
  }

  /** How many are queued, counted up to `limit`: exactly if they are on few lists, else with what was leased of later ones. */
  queued(limit: number): number {
    let count = this.sql.number`
      SELECT count(*) FROM (
        SELECT DISTINCT a.job, a.id
        FROM (SELECT job, ids FROM queue ORDER BY job, number LIMIT ${COUNTED}) AS lists
        CROSS JOIN json_each(lists.ids) AS named
        CROSS JOIN attempts AS a ON a.job = lists.job AND a.id = named.value AND a.state = 'queued' LIMIT ${limit})`;
    let last = this.sql.first<{ job: number; number: number }>`
      SELECT job, number FROM queue ORDER BY job, number LIMIT 1 OFFSET ${COUNTED - 1}`;
    while (last && count < limit) {
      const lists: { job: number; number: number; attempts: number }[] = this.sql.all`
        SELECT job, number, json_array_length(ids) AS attempts FROM queue
        WHERE (job, number) > (${last.job}, ${last.number}) ORDER BY job, number LIMIT ${COUNTED}`;
      for (const { attempts } of lists) count += attempts;
      last = lists.at(-1);
    }
    return Math.min(count, limit);
  }

  /**
   * The next ones to run: oldest job first, then as they were queued; none of the jobs `but`, which are in ascending order. Lists
   * of which nothing is queued any more go.
   */
  next(limit: number, but: readonly number[]): AttemptRow[] {
    const found = new Map<string, AttemptRow>();
    let after = { job: 0, number: 0 };
    // By ranges between them: what is queued in a job that has ended may be more than could be passed over.
    for (const before of [...but, Number.MAX_SAFE_INTEGER]) {
      while (found.size < limit) {
        const list = this.sql.first<{ job: number; number: number; ids: string }>`
          SELECT job, number, ids FROM queue WHERE (job, number) > (${after.job}, ${after.number}) AND job < ${before}
          ORDER BY job, number LIMIT 1`;
        if (!list) break;
        after = list;
        const { job, number, ids } = list;
        const queued = this.sql.query<AttemptRow>(QUEUED, [ids, job]);
        if (queued.length === 0) this.sql.run`DELETE FROM queue WHERE job = ${job} AND number = ${number}`;
        for (const attempt of queued) if (found.size < limit) found.set(`${job}.${attempt.id}`, attempt);
      }
      after = { job: before, number: Number.MAX_SAFE_INTEGER };
    }
    return [...found.values()];
  }

  /** Leases queued attempts to a worker, by one call. */
  run(
    leased: readonly (AttemptRow & { readonly lease: string })[],
    { worker, node, until }: { worker: string; node: string; until: number },
  ): void {
    if (leased.length === 0) return;
    const attempts = JSON.stringify(leased.map(({ job, id }) => [job, id]));
    const call = this.sql.number`
      INSERT INTO lease_calls (worker, due, attempts) VALUES (${worker}, ${until}, ${attempts}) RETURNING call`;
    for (const { job, id, lease } of leased) {
      this.sql.run`
        UPDATE attempts SET state = 'running', lease = ${lease}, worker = ${worker}, node = ${node},
          leaseUntil = ${until}, call = ${call}
        WHERE job = ${job} AND id = ${id} AND state = 'queued'`;
    }
    this.wake("leases", until);
  }

  /**
   * The attempt that a lease holds. The lease is the fence: one that is lost or ran out, or whose job has ended, finds
   * nothing. More may have run out than were swept.
   */
  held(lease: string, now: number): HeldAttempt | undefined {
    const { job, id } = placeOf(lease);
    return this.sql.first<HeldAttempt>`
      SELECT job, attempts.id, key, tries, troubles, lost, node, call, revision
      FROM attempts CROSS JOIN jobs ON n = attempts.job AND job = ${job} AND attempts.id = ${id}
      WHERE lease = ${lease} AND leaseUntil > ${now} AND attempts.state = 'running'
        AND jobs.finishedAt IS NULL`;
  }

  /** Returns its job; undefined if the lease is lost, as of `held`. */
  renew(lease: string, { now, until }: { now: number; until: number }): number | undefined {
    const { job, id } = placeOf(lease);
    return this.sql.first<{ job: number }>`
      UPDATE attempts SET leaseUntil = ${until}
      WHERE lease = ${lease} AND leaseUntil > ${now} AND state = 'running'
        AND EXISTS (SELECT 1 FROM jobs WHERE n = attempts.job AND finishedAt IS NULL)
        AND job = ${job} AND id = ${id}
      RETURNING job`?.job;
  }

  /** Attempts whose lease ran out. Once they were seen to, `settleDue` is to follow. */
  expired(now: number, limit: number): ExpiredAttempt[] {
    return this.sql.query<ExpiredAttempt>(
      `SELECT DISTINCT a.job AS job, a.id AS id, a.key AS key, a.tries AS tries, a.troubles AS troubles, a.lost AS lost,
         a.node AS node
       FROM ${LEASED} WHERE c.due <= ?1 AND a.leaseUntil <= ?1 LIMIT ?2`,
      [now, limit],
    );
  }

  /** Calls that were due are so when the next lease of them runs out; those go of which nothing is leased. */
  settleDue(now: number): void {
    if ((this.nextExpiry() ?? Number.POSITIVE_INFINITY) > now) return;
    const calls = this.sql.query<{ call: number; due: number }>(
      `SELECT c.call AS call, min(a.leaseUntil) AS due FROM ${LEASED} WHERE c.due <= ?1 GROUP BY c.call`,
      [now],
    );
    const kept = JSON.stringify(calls.map(({ call }) => call));
    this.sql
      .run`DELETE FROM lease_calls WHERE due <= ${now} AND call NOT IN (SELECT value FROM json_each(${kept}))`;
    for (const { call, due } of calls)
      this.sql.run`UPDATE lease_calls SET due = ${due} WHERE call = ${call} AND due <> ${due}`;
  }

  /** Those of some calls go of which nothing is leased any more. */
  settle(calls: ReadonlySet<number>): void {
    for (const call of calls) {
      const isLeased = this.sql.query(`SELECT 1 FROM ${LEASED} WHERE c.call = ? LIMIT 1`, [call]).length > 0;
      if (!isLeased) this.sql.run`DELETE FROM lease_calls WHERE call = ${call}`;
    }
  }

  /** No lease runs out before; undefined if there is none. */
  nextExpiry(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM lease_calls INDEXED BY lease_calls_by_due WHERE due >= 0 ORDER BY due LIMIT 1`?.due;
  }

  /**
   * Leases that would last longer end then; with `isAhead` also those that would end before. Wakes nothing: whoever asks for
   * datums looks for leases that ran out, and the alarm that stands comes later at most.
   */
  setExpiry(until: number, { isAhead }: { isAhead: boolean }): void {
    this.sql.execute(
      `UPDATE attempts SET leaseUntil = ?1
       WHERE (job, id) IN (SELECT a.job, a.id FROM ${LEASED}) AND leaseUntil > ?2`,
      [until, isAhead ? 0 : until],
    );
    this.sql.run`UPDATE lease_calls SET due = ${until} WHERE due > ${isAhead ? 0 : until}`;
  }

  /** Back into the queue, with what it has behind it. */
  requeue({ job, id, tries, troubles, lost }: AttemptRow): void {
    this.#lost.ofAttempt({ job, id });
    this.sql.run`
      UPDATE attempts SET state = 'queued', lease = NULL, worker = NULL, node = NULL, leaseUntil = NULL,
        tries = ${tries}, troubles = ${troubles}, lost = ${lost}
      WHERE job = ${job} AND id = ${id}`;
    this.#queue(job, [id]);
  }

  /** Keeps what went wrong with a try, while it is tried again and after it has failed. */
  note({ job, id }: AttemptRow, { exitCode, reason, log }: Fault): void {
    this.sql.run`
      UPDATE attempts SET exitCode = ${exitCode}, reason = ${reason}, log = ${log}
      WHERE job = ${job} AND id = ${id}`;
  }

  /** The result is recorded: a job that waited for the same datum need not run it. */
  succeed({ job, id }: AttemptRow, { exitCode, now }: { exitCode: number; now: number }): void {
    this.sql.run`
      UPDATE attempts SET state = 'success', lease = NULL, leaseUntil = NULL, finishedAt = ${now},
        exitCode = ${exitCode}, reason = NULL, log = NULL
      WHERE job = ${job} AND id = ${id}`;
    this.#jobs.count(job, { processed: 1, open: -1 });
    for (const spared of this.#open(id)) {
      this.sql.run`
        UPDATE attempts SET state = 'skipped', finishedAt = ${now} WHERE job = ${spared.job} AND id = ${id}`;
      this.#jobs.count(spared.job, { skipped: 1, open: -1 });
    }
  }

  /**
   * For good, in this job: the next job that waited for the datum tries for itself. `bad`: it failed by its own fault
   * alone, so that a job may succeed without it.
   */
  fail(attempt: AttemptRow, { bad, ...fault }: Fault & { now: number; bad: boolean }): void {
    const { job, id, tries, troubles, lost } = attempt;
    this.note(attempt, fault);
    this.#lost.ofAttempt(attempt);
    this.sql.run`
      UPDATE attempts SET state = 'failed', lease = NULL, leaseUntil = NULL, tries = ${tries},
        troubles = ${troubles}, lost = ${lost}, isBad = ${bad ? 1 : 0}, finishedAt = ${fault.now}
      WHERE job = ${job} AND id = ${id}`;
    this.#jobs.count(job, { failed: 1, bad: bad ? 1 : 0, open: -1 });
    this.#promote(id);
  }

  /**
   * Calls off what is open of a job that has ended, one slice of its attempts; the next job that waited for a datum
   * runs it. Returns what the next slice comes after; null: that was the last.
   */
  callOff(job: number, { after, limit, now }: { after: string; limit: number; now: number }): string | null {
    const rows = this.sql.all<{ id: string; finishedAt: number | null; call: number | null }>`
      SELECT id, finishedAt, call FROM attempts WHERE job = ${job} AND id > ${after}
      ORDER BY id LIMIT ${limit}`;
    const calls = new Set<number>();
    for (const { id, call } of rows.filter(({ finishedAt }) => finishedAt === null)) {
      if (call !== null) calls.add(call);
      this.#lost.ofAttempt({ job, id });
      this.sql.run`
        UPDATE attempts SET state = 'killed', lease = NULL, leaseUntil = NULL, finishedAt = ${now}
        WHERE job = ${job} AND id = ${id}`;
      this.#promote(id);
    }
    this.settle(calls);
    // So that no worker that looks for work passes by all of them in one turn.
    this.sql.run`
      DELETE FROM queue WHERE job = ${job} AND number IN (
        SELECT number FROM queue WHERE job = ${job} ORDER BY number LIMIT ${limit})`;
    return rows.length < limit ? null : (rows.at(-1)?.id ?? null);
  }

  /** Failed datums of a job, by key, after one; from the first for null. */
  failed(job: number, { after, limit }: { after: string | null; limit: number }): FailedAttempt[] {
    return this.sql.all<FailedAttempt>`
      SELECT job, id, key, tries, troubles, lost, exitCode, reason, log
      FROM attempts INDEXED BY attempts_failed
      WHERE state = 'failed' AND job = ${job} AND key >= ${after ?? ""} AND (${after} IS NULL OR key > ${after})
      ORDER BY key LIMIT ${limit}`;
  }

  /** Failed datums of a job by key, each with the end of its log. */
  failedTails(job: number, limit: number): FailedTail[] {
    return this.sql.all<FailedTail>`
      SELECT id, key, node, exitCode, reason, substr(log, -${TAIL_CHARACTERS}) AS tail
      FROM attempts INDEXED BY attempts_failed
      WHERE state = 'failed' AND job = ${job} ORDER BY key LIMIT ${limit}`;
  }

  /** The first failed datum of a job that failed not by its own fault alone. */
  firstNotBad(job: number): FailedAttempt | undefined {
    return this.sql.first<FailedAttempt>`
      SELECT job, id, key, tries, troubles, lost, exitCode, reason, log
      FROM attempts INDEXED BY attempts_failed
      WHERE state = 'failed' AND job = ${job} AND isBad = 0 ORDER BY key LIMIT 1`;
  }

  /** Datums that were open when their job ended, by key, after one; from the first for null. */
  killed(job: number, { after, limit }: { after: string | null; limit: number }): AttemptRow[] {
    return this.sql.all<AttemptRow>`
      SELECT job, id, key, tries, troubles, lost FROM attempts INDEXED BY attempts_killed
      WHERE state = 'killed' AND job = ${job} AND key >= ${after ?? ""} AND (${after} IS NULL OR key > ${after})
      ORDER BY key LIMIT ${limit}`;
  }

  hasFailed(job: number, id: string): boolean {
    return this.sql.has`SELECT 1 FROM attempts WHERE job = ${job} AND id = ${id} AND state = 'failed'`;
  }

  /** How long the datums of a job ran that it ran with success, of the first `limit` that it has: an id is a hash, so any of them. */
  durations(job: number, limit: number): RanAttempt[] {
    return this.sql.all<RanAttempt>`
      SELECT a.id, a.key, a.node, a.finishedAt, r.millis FROM (
        SELECT job, id, key, node, state, finishedAt FROM attempts WHERE job = ${job} ORDER BY id LIMIT ${limit}) AS a
      CROSS JOIN results AS r ON r.id = a.id AND r.job = a.job
      WHERE a.state = 'success' ORDER BY r.millis, a.id`;
  }

  /** When the last of a job's datums failed, of the first `limit` of them. */
  lastFailure(job: number, limit: number): number | null {
    const row = this.sql.first<{ at: number | null }>`
      SELECT max(at) AS at FROM (
        SELECT finishedAt AS at FROM attempts INDEXED BY attempts_failed
        WHERE state = 'failed' AND job = ${job} LIMIT ${limit})`;
    return row?.at ?? null;
  }

  /** The ULID of the first lease under which a datum of a job runs now. */
  firstLease(job: number): string | undefined {
    const [first] = this.sql.query<{ lease: string }>(
      `SELECT a.lease AS lease FROM ${LEASED} WHERE a.job = ? ORDER BY a.lease LIMIT 1`,
      [job],
    );
    return first?.lease.slice(0, ULID_LENGTH);
  }

  /** Datums of a job that run now, those that have run longest first. */
  running(job: number, limit: number): RunningAttempt[] {
    return this.sql.query<RunningAttempt>(
      `SELECT a.id AS id, a.key AS key, a.node AS node, substr(a.lease, 1, ${ULID_LENGTH}) AS lease,
         count(*) OVER () AS count
       FROM ${LEASED} WHERE a.job = ? ORDER BY a.lease LIMIT ?`,
      [job, limit],
    );
  }

  /** What a job ran or is to run, by id, after one. */
  ofJob(job: number, { after, limit }: { after: string; limit: number }): ShownAttempt[] {
    return this.sql.all<ShownAttempt>`
      SELECT job, id, key, state, tries, troubles, lost, node, exitCode, reason, log, finishedAt
      FROM attempts WHERE job = ${job} AND id > ${after} ORDER BY id LIMIT ${limit}`;
  }

  get(job: number, id: string): ShownAttempt | undefined {
    return this.sql.first<ShownAttempt>`
      SELECT job, id, key, state, tries, troubles, lost, node, exitCode, reason, log, finishedAt
      FROM attempts WHERE job = ${job} AND id = ${id}`;
  }

  /** Removes some rows of jobs before one; returns false if none is left. */
  trim(before: number, limit: number): boolean {
    this.sql.run`DELETE FROM queue WHERE job < ${before}`;
    const rows = this.sql.all`
      DELETE FROM attempts WHERE (job, id) IN (
        SELECT job, id FROM attempts WHERE job < ${before} ORDER BY job, id LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }

  /** The oldest job that waited for a datum which nobody is to run any more runs it. */
  #promote(id: string): void {
    const open = this.#open(id);
    const [oldest] = open;
    if (!oldest || open.some(({ state }) => state !== "waiting")) return;
    this.sql.run`UPDATE attempts SET state = 'queued' WHERE job = ${oldest.job} AND id = ${id}`;
    this.#queue(oldest.job, [id]);
  }

  #open(id: string): { readonly job: number; readonly state: string }[] {
    return this.sql.query(OPEN, [id, this.#pipeline.existing.turn]);
  }
}
