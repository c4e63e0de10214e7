import type { Counts } from "./jobs.ts";
import type { Sql } from "./sql.ts";

export interface AttemptRow {
  readonly job: number;
  readonly id: string;
  readonly key: string;
  readonly tries: number;
  readonly lost: number;
}

export interface FailedAttempt extends AttemptRow {
  readonly exitCode: number | null;
  readonly reason: string | null;
  readonly log: string | null;
}

/** Why an attempt did not succeed. */
export interface Fault {
  readonly exitCode: number | null;
  readonly reason: string;
  readonly log: string;
}

/**
 * What runs, and what failed, per job. Of all unsettled attempts of one datum id at most one is queued or running,
 * that of the oldest job where that can be had; the others wait for it.
 */
export class AttemptStore {
  readonly #sql: Sql;
  readonly #count: (job: number, counts: Counts) => void;

  constructor(sql: Sql, count: (job: number, counts: Counts) => void) {
    this.#sql = sql;
    this.#count = count;
  }

  /** A datum that a job has to run. Fine where the job has it already. */
  add(job: number, { id, key }: { id: string; key: string }): void {
    if (this.#sql.first`SELECT 1 FROM attempts WHERE job = ${job} AND id = ${id}`) return;
    const other = this.#sql.first<{ job: number; state: string }>`
      SELECT job, state FROM attempts INDEXED BY attempts_unsettled
      WHERE id = ${id} AND finished_at IS NULL AND state <> 'waiting'`;
    const overtakes = other?.state === "queued" && other.job > job;
    if (overtakes)
      this.#sql.run`UPDATE attempts SET state = 'waiting' WHERE job = ${other.job} AND id = ${id}`;
    this.#sql.run`
      INSERT INTO attempts (job, id, key, state, tries, lost)
      VALUES (${job}, ${id}, ${key}, ${other && !overtakes ? "waiting" : "queued"}, 0, 0)`;
    this.#count(job, { open: 1 });
  }

  /** Queues a datum again whose result was lost after it had been settled. */
  redo(job: number, { id, key }: { id: string; key: string }): void {
    const settled = this.#sql.first<{ state: string }>`
      SELECT state FROM attempts WHERE job = ${job} AND id = ${id} AND finished_at IS NOT NULL`;
    if (!settled) {
      this.add(job, { id, key });
      return;
    }
    this.#sql.run`
      UPDATE attempts SET state = 'queued', tries = 0, finished_at = NULL WHERE job = ${job} AND id = ${id}`;
    this.#count(job, { open: 1, processed: settled.state === "success" ? -1 : 0 });
  }

  /** How many are queued, counted up to `limit`. */
  queued(limit: number): number {
    return (
      this.#sql.first<{ count: number }>`
        SELECT count(*) AS count FROM (SELECT 1 FROM attempts WHERE state = 'queued' LIMIT ${limit})`
        ?.count ?? 0
    );
  }

  /** The next ones to run: oldest job first, then by key. */
  next(limit: number): AttemptRow[] {
    return this.#sql.all<AttemptRow>`
      SELECT job, id, key, tries, lost FROM attempts INDEXED BY attempts_queued
      WHERE state = 'queued' ORDER BY job, key LIMIT ${limit}`;
  }

  run(attempt: AttemptRow, { lease, worker, until }: { lease: string; worker: string; until: number }): void {
    this.#sql.run`
      UPDATE attempts SET state = 'running', lease = ${lease}, worker = ${worker}, lease_until = ${until}
      WHERE job = ${attempt.job} AND id = ${attempt.id} AND state = 'queued'`;
  }

  /** The attempt that a lease holds. The lease is the fence: a lost one finds nothing. */
  held(lease: string): AttemptRow | undefined {
    return this.#sql.first<AttemptRow>`
      SELECT job, id, key, tries, lost FROM attempts WHERE lease = ${lease} AND state = 'running'`;
  }

  /** False where the lease is lost. */
  renew(lease: string, until: number): boolean {
    return (
      this.#sql.first`
        UPDATE attempts SET lease_until = ${until} WHERE lease = ${lease} AND state = 'running' RETURNING job` !==
      undefined
    );
  }

  /** Attempts whose lease ran out. */
  expired(now: number, limit: number): AttemptRow[] {
    return this.#sql.all<AttemptRow>`
      SELECT job, id, key, tries, lost FROM attempts
      WHERE lease_until IS NOT NULL AND lease_until <= ${now} ORDER BY lease_until LIMIT ${limit}`;
  }

  nextExpiry(): number | undefined {
    return this.#sql.first<{ until: number }>`
      SELECT lease_until AS until FROM attempts WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT 1`
      ?.until;
  }

  hasRunning(): boolean {
    return this.nextExpiry() !== undefined;
  }

  /** Back into the queue, with what it has behind it. */
  requeue({ job, id, tries, lost }: AttemptRow): void {
    this.#sql.run`
      UPDATE attempts SET state = 'queued', lease = NULL, worker = NULL, lease_until = NULL,
        tries = ${tries}, lost = ${lost}
      WHERE job = ${job} AND id = ${id}`;
  }

  /** The result is recorded: whoever waited for the same datum need not run it. */
  succeed({ job, id }: AttemptRow, now: number): void {
    this.#sql.run`
      UPDATE attempts SET state = 'success', lease = NULL, lease_until = NULL, finished_at = ${now}
      WHERE job = ${job} AND id = ${id}`;
    this.#count(job, { processed: 1, open: -1 });
    const spared = this.#sql.all<{ job: number }>`
      UPDATE attempts INDEXED BY attempts_unsettled SET state = 'skipped', finished_at = ${now}
      WHERE id = ${id} AND finished_at IS NULL RETURNING job`;
    for (const waiting of spared) this.#count(waiting.job, { skipped: 1, open: -1 });
  }

  /** For good, in this job: the next job that waited for the datum tries for itself. */
  fail(attempt: AttemptRow, { exitCode, reason, log, now }: Fault & { now: number }): void {
    const { job, id, tries, lost } = attempt;
    this.#sql.run`
      UPDATE attempts SET state = 'failed', lease = NULL, lease_until = NULL, tries = ${tries}, lost = ${lost},
        exit_code = ${exitCode}, reason = ${reason}, log = ${log}, finished_at = ${now}
      WHERE job = ${job} AND id = ${id}`;
    this.#count(job, { failed: 1, open: -1 });
    this.#sql.run`
      UPDATE attempts SET state = 'queued' WHERE id = ${id} AND job = (
        SELECT job FROM attempts INDEXED BY attempts_unsettled
        WHERE id = ${id} AND finished_at IS NULL ORDER BY job LIMIT 1)`;
  }

  /** Failed datums of a job, by key, after one; from the first for null. */
  failed(job: number, { after, limit }: { after: string | null; limit: number }): FailedAttempt[] {
    if (after === null) {
      return this.#sql.all<FailedAttempt>`
        SELECT job, id, key, tries, lost, exit_code AS exitCode, reason, log
        FROM attempts INDEXED BY attempts_failed
        WHERE state = 'failed' AND job = ${job} ORDER BY key LIMIT ${limit}`;
    }
    return this.#sql.all<FailedAttempt>`
      SELECT job, id, key, tries, lost, exit_code AS exitCode, reason, log
      FROM attempts INDEXED BY attempts_failed
      WHERE state = 'failed' AND job = ${job} AND key > ${after} ORDER BY key LIMIT ${limit}`;
  }
}
