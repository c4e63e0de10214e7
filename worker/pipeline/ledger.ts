import { AttemptStore } from "./attempts.ts";
import { DatumStore } from "./datums.ts";
import type { Definition } from "./definition.ts";
import { ElementStore } from "./elements.ts";
import { JobStore } from "./jobs.ts";
import { PipelineStore } from "./pipeline-store.ts";
import { PublishedStore, ResultStore } from "./results.ts";
import { hasTables, migrate } from "./schema.ts";
import { SlotStore } from "./slots.ts";
import { SourceStore } from "./sources.ts";
import { Sql } from "./sql.ts";
import { TimerStore } from "./timers.ts";
import { TouchedStore } from "./touched.ts";

/** Everything that a Pipeline object stores. */
export class Ledger {
  readonly sql: Sql;
  readonly pipeline: PipelineStore;
  readonly sources: SourceStore;
  readonly jobs: JobStore;
  readonly touched: TouchedStore;
  readonly elements: ElementStore;
  readonly datums: DatumStore;
  readonly attempts: AttemptStore;
  readonly results: ResultStore;
  readonly published: PublishedStore;
  readonly slots: SlotStore;
  readonly timers: TimerStore;
  readonly #storage: DurableObjectStorage;
  #exists: boolean;

  constructor(storage: DurableObjectStorage) {
    const sql = new Sql(storage.sql);
    this.sql = sql;
    this.pipeline = new PipelineStore(sql);
    this.sources = new SourceStore(sql);
    this.jobs = new JobStore(sql);
    this.touched = new TouchedStore(sql);
    this.elements = new ElementStore(sql);
    this.datums = new DatumStore(sql);
    this.attempts = new AttemptStore(sql, (job, counts) => this.jobs.count(job, counts));
    this.results = new ResultStore(sql, () => this.pipeline.definition()?.salt ?? "");
    this.published = new PublishedStore(sql);
    this.slots = new SlotStore(sql);
    this.timers = new TimerStore(sql, storage);
    this.#storage = storage;
    this.#exists = hasTables(sql);
    if (this.#exists) this.transaction(() => migrate(sql));
  }

  /** Whether the pipeline was ever created: without tables no store may be asked. */
  get exists(): boolean {
    return this.#exists;
  }

  makeTables(): void {
    if (this.#exists) return;
    this.transaction(() => migrate(this.sql));
    this.#exists = true;
  }

  /** All of it or nothing; nothing else runs in between. */
  transaction<T>(work: () => T): T {
    return this.#storage.transactionSync(work);
  }

  /** The pipeline while it runs. */
  active(): Definition | undefined {
    return this.exists ? this.pipeline.active() : undefined;
  }

  /**
   * A step that was prepared while others could run: done only if the same pipeline is still active, so that
   * nothing of a deleted pipeline ends up in one of the same name. Undefined where it was not done.
   */
  step<T>(uid: string, work: () => T): T | undefined {
    return this.transaction(() => (this.pipeline.active()?.uid === uid ? work() : undefined));
  }
}
