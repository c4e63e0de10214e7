import { ObjectLedger } from "../../objects/ledger.ts";
import { OutboxStore } from "../../objects/outbox.ts";
import { oweRewrite } from "../../objects/rewrite.ts";
import { SpaceWatch } from "../../objects/space.ts";
import type { Tx } from "../../objects/transaction.ts";
import { AttemptStore } from "../attempts/attempt-store.ts";
import { CodeStore, ResultStore } from "../attempts/result-store.ts";
import { SlotStore } from "../attempts/slot-store.ts";
import { TaskStore } from "../attempts/task-store.ts";
import { GivenUpStore, LostLeaseStore } from "../attempts/upload-store.ts";
import { DatumStore } from "../inputs/datum-store.ts";
import { ElementStore, TouchedStore } from "../inputs/element-store.ts";
import { ErasureStore } from "../inputs/erasure-store.ts";
import { SourceStore } from "../inputs/source-store.ts";
import { JobStore } from "../jobs/job-store.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { PipelineStore, type StoredState } from "../lifecycle/pipeline-store.ts";
import { ErrorsClaimStore, ProposalStore, VersionStore } from "../lifecycle/version-store.ts";
import { LogStore } from "../logs/log-store.ts";
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
export class Ledger extends ObjectLedger {
  readonly versions = new VersionStore(this.sql);
  readonly pipeline = new PipelineStore(this.sql, this.versions);
  readonly proposals = new ProposalStore(this.sql);
  readonly sources = new SourceStore(this.sql);
  /** Whom a pipeline tells. `jobs`: the catalogue, what has become of jobs. */
  readonly outbox = new OutboxStore<"jobs">(this.sql);
  readonly jobs = new JobStore(this.sql, this.outbox);
  readonly touched = new TouchedStore(this.sql);
  readonly elements = new ElementStore(this.sql);
  readonly erasures = new ErasureStore(this.sql);
  readonly datums = new DatumStore(this.sql);
  readonly lost = new LostLeaseStore(this.sql);
  readonly attempts = new AttemptStore(this.sql, this);
  readonly codes = new CodeStore(this.sql);
  readonly givenUp = new GivenUpStore(this.sql);
  readonly results = new ResultStore(this.sql, this);
  readonly makers = new MakerStore(this.sql);
  readonly published = new PublishedStore(this.sql, this.makers);
  readonly ending = new EndingStore(this.sql);
  readonly changed = new ChangedStore(this.sql);
  readonly operations = new OperationStore(this.sql);
  readonly bad = new BadDatumStore(this.sql);
  readonly errorChanges = new ErrorChangeStore(this.sql);
  readonly errorsClaim = new ErrorsClaimStore(this.sql);
  readonly merges = new MergeStore(this.sql, this.givenUp);
  readonly tasks = new TaskStore(this.sql, this.lost);
  readonly egress = new EgressStore(this.sql);
  readonly slots = new SlotStore(this.sql);
  readonly logs = new LogStore(this.sql);
  readonly #watch = new SpaceWatch();

  constructor(storage: DurableObjectStorage) {
    super(storage, MIGRATIONS);
    this.open();
  }

  protected override forget(): void {
    this.pipeline.forget();
    this.codes.forget();
  }

  /**
   * What was erased goes here, too, row by row: the database is to be written anew, and once more when the jobs are past that
   * may know of it.
   */
  oweRewrite(tx: Tx, now: number): void {
    oweRewrite(tx, this.sql, now);
    this.erasures.noteJob(this.jobs.newestNumber());
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
