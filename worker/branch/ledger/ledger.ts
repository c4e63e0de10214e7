import { TOLD_FROM } from "../../../protocol/repos.ts";
import { hasTables, migrate } from "../../objects/migrations.ts";
import { oweRewrite } from "../../objects/rewrite.ts";
import { OBJECT_BYTES, SpaceWatch } from "../../objects/space.ts";
import { Sql } from "../../objects/sql.ts";
import { type TransactionStorage, Transactions, type Tx, type Woken } from "../../objects/transaction.ts";
import { ExportStore } from "../archives/export-store.ts";
import { ImportStore } from "../archives/import-store.ts";
import { ContentStore, type OwnedContent } from "../contents/content-store.ts";
import { ForkHoldStore } from "../contents/fork-hold-store.ts";
import { PendingDeletionStore } from "../contents/pending-deletion-store.ts";
import type { ModifiedOf } from "../contract/settings.ts";
import { ForkStore } from "../forks/fork-store.ts";
import { RootStore } from "../forks/root-store.ts";
import { ApplyingStore } from "../open-commits/applying-store.ts";
import { OpenCommitStore } from "../open-commits/open-commit-store.ts";
import { StagedStore } from "../open-commits/staged-store.ts";
import { ErasedContentStore } from "../outbox/erased-content-store.ts";
import { ErasureStore } from "../outbox/erasure-store.ts";
import { GiveBackStore } from "../outbox/give-back-store.ts";
import { Outbox, SubscriberStore } from "../outbox/outbox-store.ts";
import { HorizonStore } from "../retention/horizon-store.ts";
import { NameStore } from "../retention/name-store.ts";
import { StartStore } from "../retention/start-store.ts";
import { UntaggedStore } from "../retention/untagged-store.ts";
import { ClaimStore } from "../settings/claim-store.ts";
import { LifecycleScanStore } from "../settings/lifecycle-scan-store.ts";
import { SettingsStore } from "../settings/settings-store.ts";
import type { BranchLoop } from "../store.ts";
import { CommitStore } from "../tree/commit-store.ts";
import { FileStore, type HeadRow } from "../tree/file-store.ts";
import { GenerationStore, type Live } from "../tree/generation-store.ts";
import { LineageStore } from "../tree/lineage-store.ts";
import { ReadCache } from "../tree/read-cache.ts";
import { TagStore } from "../tree/tag-store.ts";
import { CompletionStore } from "../uploads/completion-store.ts";
import { MultipartStore } from "../uploads/multipart-store.ts";
import { SweepStore } from "../uploads/sweep-store.ts";
import { UploadStore } from "../uploads/upload-store.ts";
import { CommitClock } from "./clock.ts";
import { MIGRATIONS } from "./migrations.ts";

/** How long after one pass of history GC the next one may begin, so that many commits are one pass; milliseconds. */
export const BETWEEN_PASSES_MS = 5000;

/** Parts of what an object's database may have: from where on it takes commits of deletions alone, and none. The rest is for what is under way. */
const FULL_AT = 0.95;
const CLOSED_AT = 0.98;
/** How many operations are committed until the size is looked at again, which takes a query; of one that is almost full, each looks. */
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
  readonly horizons: HorizonStore;
  readonly names: NameStore;
  readonly starts: StartStore;
  readonly untagged: UntaggedStore;
  readonly files: FileStore;
  readonly pendingDeletions: PendingDeletionStore;
  readonly contents: ContentStore;
  readonly uploads: UploadStore;
  readonly multiparts: MultipartStore;
  readonly sweeps: SweepStore;
  readonly completions: CompletionStore;
  readonly openCommits: OpenCommitStore;
  readonly staged: StagedStore;
  readonly applying: ApplyingStore;
  readonly forks: ForkStore;
  readonly roots: RootStore;
  readonly forkHolds: ForkHoldStore;
  readonly giveBacks: GiveBackStore;
  readonly erasures: ErasureStore;
  readonly erasedContents: ErasedContentStore;
  readonly exports: ExportStore;
  readonly imports: ImportStore;
  readonly claim: ClaimStore;
  readonly settings: SettingsStore;
  readonly lifecycleScans: LifecycleScanStore;
  readonly subscribers: SubscriberStore;
  readonly outbox: Outbox;
  readonly clock: CommitClock;
  readonly reads = new ReadCache();
  readonly #storage: LedgerStorage;
  readonly #limitBytes: number;
  readonly #tell: () => void;
  readonly #transactions: Transactions;
  #ready = false;
  #operationsToLook = 0;
  readonly #watch = new SpaceWatch();

  /**
   * `almostFull`: is called when the database gets almost full, and with each hundredth after that. `modified`: whose time
   * Last-Modified is in a branch that does not say.
   */
  constructor(
    storage: LedgerStorage,
    {
      limitBytes = OBJECT_BYTES,
      almostFull = () => {},
      modified = "branch",
    }: {
      limitBytes?: number;
      almostFull?: () => void;
      modified?: ModifiedOf;
    } = {},
  ) {
    this.#storage = storage;
    this.#tell = almostFull;
    this.#limitBytes = limitBytes;
    const transactions = new Transactions({
      storage,
      atEnd: () => this.#conclude(),
      forget: () => this.#forget(),
    });
    const sql = new Sql(storage.sql, (loop, at) => transactions.wake(loop, at));
    this.#transactions = transactions;
    this.sql = sql;
    this.generations = new GenerationStore(sql);
    this.commits = new CommitStore(sql);
    this.lineages = new LineageStore(sql);
    this.tags = new TagStore(sql);
    this.horizons = new HorizonStore(sql);
    this.names = new NameStore(sql);
    this.starts = new StartStore(sql);
    this.untagged = new UntaggedStore(sql);
    this.files = new FileStore(sql, this.reads);
    this.pendingDeletions = new PendingDeletionStore(sql);
    this.contents = new ContentStore(sql, this.pendingDeletions);
    this.multiparts = new MultipartStore(sql);
    this.sweeps = new SweepStore(sql, this.contents);
    const { contents, multiparts, sweeps } = this;
    this.uploads = new UploadStore(sql, { contents, multiparts, sweeps });
    this.completions = new CompletionStore(sql);
    this.openCommits = new OpenCommitStore(sql);
    this.staged = new StagedStore(sql, this.contents);
    this.applying = new ApplyingStore(sql);
    this.forks = new ForkStore(sql);
    this.roots = new RootStore(sql);
    this.forkHolds = new ForkHoldStore(sql, this.contents);
    this.giveBacks = new GiveBackStore(sql);
    this.erasures = new ErasureStore(sql);
    this.erasedContents = new ErasedContentStore(sql);
    this.exports = new ExportStore(sql);
    this.imports = new ImportStore(sql);
    this.claim = new ClaimStore(sql);
    this.settings = new SettingsStore(sql, modified);
    this.lifecycleScans = new LifecycleScanStore(sql);
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
    this.#transactions.run((tx) => migrate(tx, this.sql, MIGRATIONS));
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

  /**
   * All of `work` or nothing. If it throws, what it did is undone, in memory too. At its end go the contents on loan that nothing
   * keeps any more, whatever released them, and what is to be given back is written down.
   */
  transaction<T>(work: (tx: Tx) => T): T {
    return this.#transactions.run(work);
  }

  /** A loop of the object has something to do at this time, or now: it hears of it when the transaction is done. */
  wake(loop: BranchLoop, at?: number): void {
    this.#transactions.wake(loop, at);
  }

  /** Whom it tells of loops that have something to do. */
  set listener(wake: (woken: Woken) => void) {
    this.#transactions.listener = wake;
  }

  #forget(): void {
    this.generations.forget();
    this.commits.forget();
    this.applying.forget();
    this.claim.forget();
    this.settings.forget();
    this.lifecycleScans.forget();
    this.horizons.forget();
    this.subscribers.forget();
  }

  /** What a transaction leaves behind, whatever it was about. */
  #conclude(): void {
    const unkept = this.contents.takeUnkept();
    if (unkept.length > 0) {
      this.#recordUnkept(unkept);
      // A fork that was deleted goes when it has nothing of its parent any more.
      this.wake("forks");
    }
    if (this.contents.mayHaveDead) this.wake("housekeeping");
    const committedAt = this.generations.takeAdvance();
    const gen = committedAt === undefined ? undefined : this.generations.live()?.gen;
    // What the commit replaced may go soon. Many commits are one pass.
    if (committedAt !== undefined && gen !== undefined && this.settings.of(gen).keep !== null) {
      this.wake("history GC", committedAt + BETWEEN_PASSES_MS);
    }
  }

  /** Contents of a fork whose rows are gone are to be given back to its parent. */
  #recordUnkept(unkept: readonly OwnedContent[]): void {
    this.giveBacks.add(unkept);
    for (const gen of new Set(unkept.map((content) => content.gen))) {
      const fork = this.generations.get(gen)?.uid;
      // At once, but not sooner than a parent that could not be reached is tried again.
      if (fork !== undefined)
        this.outbox.mark("parent", { uid: fork, event: `${this.giveBacks.newest}`, due: 0 });
    }
  }

  /** Something is gone that nobody may find any more, not even in free pages of the database: it is to be written anew. */
  oweRewrite(tx: Tx, now: number): void {
    oweRewrite(tx, this.sql, now);
  }

  /** How large the database is, and may become. */
  get space(): { readonly usedBytes: number; readonly limitBytes: number } {
    return { usedBytes: this.#storage.sql.databaseSize, limitBytes: this.#limitBytes };
  }

  /**
   * Whether the database is so full that the history takes no more commits. Ask once for each, with its number of operations.
   * Commits of deletions alone are taken for longer, since they are how a branch gets going again.
   */
  isFull(operations: number, { of = "writes" }: { of?: "writes" | "deletions" } = {}): boolean {
    this.#operationsToLook -= operations;
    if (this.#operationsToLook >= 0) return false;
    const { usedBytes, limitBytes } = this.space;
    const used = usedBytes / limitBytes;
    this.#operationsToLook = used > TOLD_FROM ? 0 : OPERATIONS_PER_LOOK;
    const isNews = this.#watch.look(
      used,
      (hundredths) =>
        `the database of the branch ${this.bucket(undefined)} has ${hundredths} % of what it may have: 'sluice repo usage' shows what holds it, 'sluice branch keep' gives history back`,
    );
    if (isNews) this.#tell();
    return used > (of === "writes" ? FULL_AT : CLOSED_AT);
  }

  #loadClock(): { promised: number; newestCommit: number } {
    const promised = this.sql.first<{ promised: number }>`SELECT promised FROM clock WHERE one = 1`?.promised;
    const newest = this.generations.newest();
    return { promised: promised ?? 0, newestCommit: newest ? this.generations.headOf(newest).modifiedAt : 0 };
  }
}
