import { hasTables, migrate } from "../../objects/migrations.ts";
import { oweRewrite } from "../../objects/rewrite.ts";
import { OBJECT_BYTES, SpaceWatch } from "../../objects/space.ts";
import { Sql } from "../../objects/sql.ts";
import { Transactions, type Tx, type Woken } from "../../objects/transaction.ts";
import { AttemptStore } from "../attempts/attempt-store.ts";
import { CodeStore, ResultStore } from "../attempts/result-store.ts";
import { SlotStore } from "../attempts/slot-store.ts";
import { TaskStore } from "../attempts/task-store.ts";
import { GivenUpStore, LostLeaseStore } from "../attempts/upload-store.ts";
import { DatumStore } from "../inputs/datum-store.ts";
import { ElementStore, TouchedStore } from "../inputs/element-store.ts";
import { ErasureStore } from "../inputs/erasure-store.ts";
import { SourceStore } from "../inputs/source-store.ts";
import { JobStore, RetryStore } from "../jobs/job-store.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { PipelineStore, type StoredState } from "../lifecycle/pipeline-store.ts";
import { ErrorsClaimStore, ProposalStore, VersionStore } from "../lifecycle/version-store.ts";
import { LogReader, LogStore } from "../logs/log-store.ts";
import {
  BadDatumStore,
  ChangedStore,
  EndingStore,
  ErrorChangeStore,
  MergeStore,
  OperationStore,
} from "../output/draft-store.ts";
import { EgressStore } from "../output/egress-store.ts";
import { MakerStore, PublishedStore } from "../output/published-store.ts";
import { MIGRATIONS } from "./migrations.ts";

/** Everything that a Pipeline object stores. */
export class Ledger {
  readonly sql: Sql;
  readonly pipeline: PipelineStore;
  readonly versions: VersionStore;
  readonly proposals: ProposalStore;
  readonly sources: SourceStore;
  readonly jobs: JobStore;
  readonly touched: TouchedStore;
  readonly elements: ElementStore;
  readonly erasures: ErasureStore;
  readonly datums: DatumStore;
  readonly lost: LostLeaseStore;
  readonly attempts: AttemptStore;
  readonly codes: CodeStore;
  readonly givenUp: GivenUpStore;
  readonly results: ResultStore;
  readonly makers: MakerStore;
  readonly published: PublishedStore;
  readonly ending: EndingStore;
  readonly changed: ChangedStore;
  readonly operations: OperationStore;
  readonly bad: BadDatumStore;
  readonly errorChanges: ErrorChangeStore;
  readonly errorsClaim: ErrorsClaimStore;
  readonly retries: RetryStore;
  readonly merges: MergeStore;
  readonly tasks: TaskStore;
  readonly egress: EgressStore;
  readonly slots: SlotStore;
  readonly logs: LogStore;
  readonly logReader: LogReader;
  readonly #storage: DurableObjectStorage;
  readonly #transactions: Transactions;
  readonly #watch = new SpaceWatch();
  #exists: boolean;

  constructor(storage: DurableObjectStorage) {
    const transactions = new Transactions({ storage, forget: () => this.codes.forget() });
    const sql = new Sql(storage.sql, (loop, at) => transactions.wake(loop, at));
    this.#transactions = transactions;
    this.sql = sql;
    this.versions = new VersionStore(sql);
    this.pipeline = new PipelineStore(sql, this.versions);
    this.proposals = new ProposalStore(sql);
    this.sources = new SourceStore(sql);
    this.jobs = new JobStore(sql);
    this.touched = new TouchedStore(sql);
    this.elements = new ElementStore(sql);
    this.erasures = new ErasureStore(sql);
    this.datums = new DatumStore(sql);
    this.lost = new LostLeaseStore(sql);
    this.attempts = new AttemptStore(sql, {
      lost: this.lost,
      count: (job, counts) => this.jobs.count(job, counts),
    });
    this.codes = new CodeStore(sql);
    this.givenUp = new GivenUpStore(sql);
    this.results = new ResultStore(sql, {
      salt: () => this.pipeline.definition()?.salt ?? "",
      givenUp: this.givenUp,
    });
    this.makers = new MakerStore(sql);
    this.published = new PublishedStore(sql, this.makers);
    this.ending = new EndingStore(sql);
    this.changed = new ChangedStore(sql);
    this.operations = new OperationStore(sql);
    this.bad = new BadDatumStore(sql);
    this.errorChanges = new ErrorChangeStore(sql);
    this.errorsClaim = new ErrorsClaimStore(sql);
    this.retries = new RetryStore(sql);
    this.merges = new MergeStore(sql, this.givenUp);
    this.tasks = new TaskStore(sql, this.lost);
    this.egress = new EgressStore(sql);
    this.slots = new SlotStore(sql);
    this.logs = new LogStore(sql);
    this.logReader = new LogReader(sql);
    this.#storage = storage;
    this.#exists = hasTables(sql);
    if (this.#exists) this.transaction((tx) => migrate(tx, sql, MIGRATIONS));
  }

  /** Whether the pipeline was ever created: without tables no store may be asked. */
  get exists(): boolean {
    return this.#exists;
  }

  makeTables(): void {
    if (this.#exists) return;
    this.transaction((tx) => migrate(tx, this.sql, MIGRATIONS));
    this.#exists = true;
  }

  /** All of it or nothing; nothing else runs in between. */
  transaction<T>(work: (tx: Tx) => T): T {
    return this.#transactions.run(work);
  }

  /** A loop of the object has something to do at this time, or now: it hears of it when the transaction is done. */
  wake(loop: string, at?: number): void {
    this.#transactions.wake(loop, at);
  }

  /** Whom it tells of loops that have something to do. */
  set listener(wake: (woken: Woken) => void) {
    this.#transactions.listener = wake;
  }

  /**
   * What was erased goes here, too, row by row: the database is to be written anew, and once more when the jobs are past that
   * may know of it.
   */
  oweRewrite(tx: Tx, now: number): void {
    oweRewrite(tx, this.sql, now);
    this.erasures.noteJob(this.jobs.newestNumber());
  }

  /** How large the database is, and may become. */
  get space(): { readonly usedBytes: number; readonly limitBytes: number } {
    return { usedBytes: this.#storage.sql.databaseSize, limitBytes: OBJECT_BYTES };
  }

  /** Tells in the log if the database is almost full. Returns whether that was news. */
  watchSpace(): boolean {
    const { usedBytes, limitBytes } = this.space;
    return this.#watch.look(
      usedBytes / limitBytes,
      (hundredths) =>
        `the database of the pipeline ${this.pipeline.definition()?.name} has ${hundredths} % of what it may have: 'sluice repo usage' shows it`,
    );
  }

  /** The pipeline while it runs. */
  active(): Definition | undefined {
    return this.exists ? this.pipeline.active() : undefined;
  }

  /**
   * A step that was prepared while others could run: done only if the same version of the same pipeline is still
   * active, so that nothing of a deleted pipeline ends up in one of the same name. Returns undefined if it was not done.
   */
  step<T>(prepared: Definition, work: (tx: Tx) => T): T | undefined {
    return this.#while(RUNNING, { prepared, work });
  }

  /** A step that ends a job whose output may be committed already: it is also done while jobs are being ended. */
  endingStep<T>(prepared: Definition, work: (tx: Tx) => T): T | undefined {
    return this.#while(ENDING, { prepared, work });
  }

  #while<T>(
    states: readonly StoredState[],
    { prepared, work }: { prepared: Definition; work: (tx: Tx) => T },
  ): T | undefined {
    return this.transaction((tx) => {
      const row = this.pipeline.row();
      const same = row?.revision === prepared.revision && this.pipeline.definition()?.uid === prepared.uid;
      return same && states.includes(row.state) ? work(tx) : undefined;
    });
  }
}

const RUNNING: readonly StoredState[] = ["active"];
const ENDING: readonly StoredState[] = ["active", "stopping", "updating", "deleting"];
