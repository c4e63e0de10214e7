import type { PipelineSpec } from "../../protocol/spec.ts";
import { type Definition, define } from "./definition.ts";
import type { Sql } from "./sql.ts";

/** `purging`: gone for everybody else, while its rows are still being removed. */
export type StoredState = "creating" | "active" | "deleting" | "purging" | "deleted";

export interface PipelineRow {
  readonly state: StoredState;
  readonly version: number;
  readonly epoch: number | null;
  readonly keepOutput: number;
  readonly pullDue: number;
  readonly alive: number;
  readonly committed: number;
}

/** The one row about the pipeline itself. */
export class PipelineStore {
  readonly #sql: Sql;
  #definition: Definition | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  row(): PipelineRow | undefined {
    return this.#sql.first<PipelineRow>`
      SELECT state, version, epoch, keep_output AS keepOutput, pull_due AS pullDue, alive, committed
      FROM pipeline WHERE one = 1`;
  }

  /** What the pipeline is, in whatever state. */
  definition(): Definition | undefined {
    const uid = this.#sql.first<{ uid: string }>`SELECT uid FROM pipeline WHERE one = 1`?.uid;
    if (uid === undefined) return undefined;
    if (this.#definition?.uid !== uid) this.#definition = this.#read();
    return this.#definition;
  }

  /** The pipeline while it runs. */
  active(): Definition | undefined {
    return this.row()?.state === "active" ? this.definition() : undefined;
  }

  /** A new pipeline, on top of the tombstone of an earlier one. */
  begin({ uid, spec, now }: { uid: string; spec: PipelineSpec; now: number }): void {
    this.#sql.run`
      INSERT INTO pipeline (one, name, uid, state, spec, created_at, version, salt, epoch, keep_output, pull_due, alive, committed)
      VALUES (1, ${spec.pipeline.name}, ${uid}, 'creating', ${JSON.stringify(spec)}, ${now}, 1, ${uid}, NULL, 0, 0, 0, 0)
      ON CONFLICT (one) DO UPDATE SET
        uid = excluded.uid, state = excluded.state, spec = excluded.spec, created_at = excluded.created_at,
        version = version + 1, salt = excluded.salt, epoch = NULL, keep_output = 0, pull_due = 0, alive = 0, committed = 0`;
  }

  /** Every change of state is a new version for the catalogue. */
  setState(state: StoredState): void {
    this.#sql.run`UPDATE pipeline SET state = ${state}, version = version + 1`;
  }

  setKeepOutput(keep: number): void {
    this.#sql.run`UPDATE pipeline SET keep_output = ${keep}`;
  }

  setEpoch(epoch: number): void {
    this.#sql.run`UPDATE pipeline SET epoch = ${epoch}`;
  }

  setPullDue(due: 0 | 1): void {
    this.#sql.run`UPDATE pipeline SET pull_due = ${due}`;
  }

  /** Answers how many datums are alive after the change. */
  addAlive(change: number): number {
    return (
      this.#sql.first<{ alive: number }>`UPDATE pipeline SET alive = alive + ${change} RETURNING alive`
        ?.alive ?? 0
    );
  }

  setCommitted(job: number): void {
    this.#sql.run`UPDATE pipeline SET committed = ${job}`;
  }

  #read(): Definition | undefined {
    const row = this.#sql.first<{ uid: string; salt: string; spec: string; created_at: number }>`
      SELECT uid, salt, spec, created_at FROM pipeline WHERE one = 1`;
    if (!row) return undefined;
    return define({ uid: row.uid, salt: row.salt, createdAt: row.created_at, spec: JSON.parse(row.spec) });
  }
}
