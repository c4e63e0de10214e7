import type { ContentId } from "../../../protocol/content.ts";
import { earliest } from "../../objects/engine.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { AttemptStore } from "./attempt-store.ts";
import type { LostLeaseStore } from "./upload-store.ts";

export interface TaskRow {
  /** Of a merge: its own id. */
  readonly id: string;
  readonly kind: "merge" | "egress";
  readonly job: number;
  /** The path that is merged, for people. */
  readonly path: string | null;
  readonly tries: number;
  readonly lost: number;
}

/** Who gets a task, and for how long. */
export interface TaskLease {
  readonly lease: string;
  readonly node: string;
  readonly worker: string;
  /** When it ends, if it is not renewed. */
  readonly until: number;
}

/** One whose lease ran out. `node`: that had it; null if the release before leased it. */
export interface ExpiredTask extends TaskRow {
  readonly node: string | null;
}

type StoredTask = TaskRow & { readonly parts: string | null };

/** What runners are to do for the oldest job beside its datums: merges and egress. Leased like datums; a task that is done has no row. */
export class TaskStore extends Store {
  readonly #lost: LostLeaseStore;

  constructor(sql: Sql, lost: LostLeaseStore) {
    super(sql);
    this.#lost = lost;
  }

  /** Does nothing if it is there. */
  addMerge(parts: readonly ContentId[], { id, job, path }: { id: string; job: number; path: string }): void {
    const text = JSON.stringify(parts.map(({ digest, size }): ContentId => ({ digest, size })));
    this.sql.run`
      INSERT OR IGNORE INTO tasks (id, kind, job, state, path, parts, tries, lost)
      VALUES (${id}, 'merge', ${job}, 'queued', ${path}, ${text}, 0, 0)`;
  }

  addEgress({ id, job }: { id: string; job: number }): TaskRow {
    this.sql.run`
      INSERT INTO tasks (id, kind, job, state, tries, lost) VALUES (${id}, 'egress', ${job}, 'queued', 0, 0)`;
    return { id, kind: "egress", job, path: null, tries: 0, lost: 0 };
  }

  /** How many of a job are queued, counted up to `limit`. */
  queued(job: number, limit: number): number {
    return this.sql.number`
      SELECT count(*) FROM (
        SELECT 1 FROM tasks INDEXED BY tasks_by_job WHERE job = ${job} AND state = 'queued' LIMIT ${limit})`;
  }

  next(job: number, limit: number): TaskRow[] {
    return this.sql.all<TaskRow>`
      SELECT id, kind, job, path, tries, lost FROM tasks INDEXED BY tasks_by_job
      WHERE job = ${job} AND state = 'queued' ORDER BY id LIMIT ${limit}`;
  }

  has(job: number): boolean {
    return this.sql.has`SELECT 1 FROM tasks WHERE job = ${job} LIMIT 1`;
  }

  parts(id: string): ContentId[] {
    const row = this.sql.first<Pick<StoredTask, "parts">>`SELECT parts FROM tasks WHERE id = ${id}`;
    return JSON.parse(row?.parts ?? "[]");
  }

  run(id: string, { lease, node, worker, until }: TaskLease): void {
    this.sql.run`
      UPDATE tasks SET state = 'running', lease = ${lease}, node = ${node}, worker = ${worker}, leaseUntil = ${until}
      WHERE id = ${id} AND state = 'queued'`;
    this.wake("leases", until);
  }

  /** The task that a lease holds, as of attempts. */
  held(lease: string, now: number): TaskRow | undefined {
    return this.sql.first<TaskRow>`
      SELECT id, kind, job, path, tries, lost FROM tasks
      WHERE lease = ${lease} AND leaseUntil > ${now}
        AND EXISTS (SELECT 1 FROM jobs WHERE n = tasks.job AND finishedAt IS NULL)`;
  }

  /** Returns its job; undefined if the lease is lost. */
  renew(lease: string, { now, until }: { now: number; until: number }): number | undefined {
    return this.sql.first<{ job: number }>`
      UPDATE tasks SET leaseUntil = ${until}
      WHERE lease = ${lease} AND leaseUntil > ${now}
        AND EXISTS (SELECT 1 FROM jobs WHERE n = tasks.job AND finishedAt IS NULL)
      RETURNING job`?.job;
  }

  expired(now: number, limit: number): ExpiredTask[] {
    return this.sql.all<ExpiredTask>`
      SELECT id, kind, job, path, tries, lost, node FROM tasks
      WHERE leaseUntil IS NOT NULL AND leaseUntil <= ${now} ORDER BY leaseUntil LIMIT ${limit}`;
  }

  nextExpiry(): number | undefined {
    return this.sql.first<{ leaseUntil: number }>`
      SELECT leaseUntil FROM tasks WHERE leaseUntil IS NOT NULL ORDER BY leaseUntil LIMIT 1`?.leaseUntil;
  }

  /** As of attempts. */
  setExpiry(until: number, { isAhead }: { isAhead: boolean }): void {
    this.sql.run`
      UPDATE tasks INDEXED BY tasks_by_expiry SET leaseUntil = ${until}
      WHERE leaseUntil IS NOT NULL AND leaseUntil > ${isAhead ? 0 : until}`;
  }

  /** Back into the queue, with what it has behind it. */
  requeue({ id, tries, lost }: TaskRow): void {
    this.#lost.ofTask(id);
    this.sql.run`
      UPDATE tasks SET state = 'queued', lease = NULL, node = NULL, worker = NULL, leaseUntil = NULL, tries = ${tries},
        lost = ${lost}
      WHERE id = ${id}`;
  }

  note(id: string, reason: string): void {
    this.sql.run`UPDATE tasks SET reason = ${reason} WHERE id = ${id}`;
  }

  /** What last went wrong with the egress of a job. */
  egressFault(job: number): string | undefined {
    return this.sql.first<{ reason: string }>`
      SELECT reason FROM tasks WHERE job = ${job} AND kind = 'egress' AND reason IS NOT NULL LIMIT 1`?.reason;
  }

  /** Nobody needs it any more. */
  drop(id: string): void {
    this.#lost.ofTask(id);
    this.remove(id);
  }

  remove(id: string): void {
    this.sql.run`DELETE FROM tasks WHERE id = ${id}`;
    // The job may have waited for this one alone.
    this.wake("jobs");
  }

  /** Any that are left, of whichever job. */
  some(limit: number): TaskRow[] {
    return this.sql.all<TaskRow>`SELECT id, kind, job, path, tries, lost FROM tasks LIMIT ${limit}`;
  }

  /** Takes every egress task from the worker that has it. */
  callOffEgress(): void {
    this.sql.run`DELETE FROM tasks WHERE kind = 'egress'`;
  }
}

/** When the next lease runs out. */
export function nextExpiry(of: { attempts: AttemptStore; tasks: TaskStore }): number | undefined {
  return earliest(of.attempts.nextExpiry(), of.tasks.nextExpiry());
}
