import { hasTables, migrate } from "../../sqlite/migrations.ts";
import { Sql } from "../../sqlite/sql.ts";
import { type TransactionStorage, type Tx, transaction } from "../../sqlite/transaction.ts";
import { ForkStore } from "../forks/fork-store.ts";
import { RootStore } from "../forks/root-store.ts";
import { ApplyingStore } from "../large-commits/applying-store.ts";
import { ClaimStore } from "../lifecycle/claim-store.ts";
import { Outbox, SubscriberStore } from "../lifecycle/outbox-store.ts";
import { SettingsStore } from "../lifecycle/settings-store.ts";
import { OpenCommitStore } from "../open-commits/open-commit-store.ts";
import { StagedStore } from "../open-commits/staged-store.ts";
import { CommitStore } from "../tree/commit-store.ts";
import { ContentStore } from "../tree/content-store.ts";
import { FileStore, type HeadRow } from "../tree/file-store.ts";
import { GenerationStore, type Live } from "../tree/generation-store.ts";
import { LineageStore } from "../tree/lineage-store.ts";
import { ReadCache } from "../tree/read-cache.ts";
import { TagStore } from "../tree/tag-store.ts";
import { CompletionStore } from "../uploads/completion-store.ts";
import { MultipartStore } from "../uploads/multipart-store.ts";
import { UploadStore } from "../uploads/upload-store.ts";
import { CommitClock } from "./clock.ts";
import { MIGRATIONS } from "./migrations.ts";

/** Of the 10 GB that an object's database may have; the rest is for deletions and what is under way. */
const FULL_AT_BYTES = 9_500_000_000;
/** How many operations are committed until the size is looked at again, which takes a query. They can't fill the rest. */
const OPERATIONS_PER_LOOK = 64;

/** What of the platform's storage the ledger uses. */
interface LedgerStorage extends TransactionStorage {
  readonly sql: Pick<SqlStorage, "exec" | "databaseSize">;
}

/** Everything that a Branch object has written down: its stores, the clock of its commits, and its transactions. */
export class Ledger {
  readonly sql: Sql;
  readonly generations: GenerationStore;
  readonly commits: CommitStore;
  readonly lineages: LineageStore;
  readonly tags: TagStore;
  readonly files: FileStore;
  readonly contents: ContentStore;
  readonly uploads: UploadStore;
  readonly multiparts: MultipartStore;
  readonly completions: CompletionStore;
  readonly openCommits: OpenCommitStore;
  readonly staged: StagedStore;
  readonly applying: ApplyingStore;
  readonly forks: ForkStore;
  readonly roots: RootStore;
  readonly claim: ClaimStore;
  readonly settings: SettingsStore;
  readonly subscribers: SubscriberStore;
  readonly outbox: Outbox;
  readonly clock: CommitClock;
  readonly reads = new ReadCache();
  readonly #storage: LedgerStorage;
  #ready = false;
  #operationsToLook = 0;

  constructor(storage: LedgerStorage) {
    this.#storage = storage;
    const sql = new Sql(storage.sql);
    this.sql = sql;
    this.generations = new GenerationStore(sql);
    this.commits = new CommitStore(sql);
    this.lineages = new LineageStore(sql);
    this.tags = new TagStore(sql);
    this.files = new FileStore(sql, this.reads);
    this.contents = new ContentStore(sql);
    this.multiparts = new MultipartStore(sql);
    this.uploads = new UploadStore(sql, { contents: this.contents, multiparts: this.multiparts });
    this.completions = new CompletionStore(sql);
    this.openCommits = new OpenCommitStore(sql);
    this.staged = new StagedStore(sql, this.contents);
    this.applying = new ApplyingStore(sql);
    this.forks = new ForkStore(sql);
    this.roots = new RootStore(sql);
    this.claim = new ClaimStore(sql);
    this.settings = new SettingsStore(sql);
    this.subscribers = new SubscriberStore(sql);
    this.outbox = new Outbox(sql);
    this.clock = new CommitClock({
      load: () => this.#loadClock(),
      save: (promised) => sql.run`UPDATE clock SET promised = ${promised} WHERE one = 1`,
    });
  }

  /** Whether there are tables. A name that was only probed has none, and nothing else may be asked of its ledger. */
  get exists(): boolean {
    if (!this.#ready && hasTables(this.sql)) this.makeTables();
    return this.#ready;
  }

  /** The generation that lives; null if none does, or nothing was ever written. */
  get live(): Live | null {
    return this.exists ? this.generations.live() : null;
  }

  /** What is at a path at HEAD, also while rows of the commit after it are being written. */
  presentFile({ gen, head: { seq } }: Live, path: string): HeadRow | undefined {
    return this.applying.writesTo(gen) ? this.files.at({ gen, seq }, path) : this.files.head(gen, path);
  }

  /** Makes the tables, or brings them to this version's form. */
  makeTables(): void {
    if (this.#ready) return;
    transaction(this.#storage, (tx) => migrate(tx, this.sql, MIGRATIONS));
    this.#ready = true;
    this.clock.load();
  }

  /** The object's own bucket name. The platform tells it only sometimes: then it is written down. */
  bucket(name: string | undefined): string {
    const stored = this.sql.first<{ bucket: string }>`SELECT bucket FROM address WHERE one = 1`?.bucket;
    if (stored !== undefined) return stored;
    if (name === undefined) throw new Error("a Branch object must be addressed by name");
    this.sql.run`INSERT INTO address (one, bucket) VALUES (1, ${name})`;
    return name;
  }

  /** All of `work` or nothing. If it throws, what it did is undone, in memory too. */
  transaction<T>(work: (tx: Tx) => T): T {
    try {
      return transaction(this.#storage, work);
    } catch (error) {
      this.generations.forget();
      this.commits.forget();
      this.applying.forget();
      this.claim.forget();
      this.settings.forget();
      this.subscribers.forget();
      throw error;
    }
  }

  /** Whether the database is so full that the history takes no more commits. Ask once for each, with its number of operations. */
  isFull(operations: number): boolean {
    this.#operationsToLook -= operations;
    if (this.#operationsToLook >= 0) return false;
    const isFull = this.#storage.sql.databaseSize > FULL_AT_BYTES;
    this.#operationsToLook = isFull ? 0 : OPERATIONS_PER_LOOK;
    return isFull;
  }

  #loadClock(): { promised: number; newestCommit: number } {
    const promised = this.sql.first<{ promised: number }>`SELECT promised FROM clock WHERE one = 1`?.promised;
    const newest = this.generations.newest();
    return { promised: promised ?? 0, newestCommit: newest ? this.generations.headOf(newest).modifiedAt : 0 };
  }
}
