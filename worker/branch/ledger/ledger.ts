import { TOLD_FROM } from "../../../protocol/repos.ts";
import { type LedgerStorage, ObjectLedger } from "../../objects/ledger.ts";
import { oweRewrite } from "../../objects/rewrite.ts";
import { SpaceWatch } from "../../objects/space.ts";
import type { Changes, Tx } from "../../objects/transaction.ts";
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
import { CachePurgeStore } from "../outbox/cache-purge-store.ts";
import { ErasedContentStore } from "../outbox/erased-content-store.ts";
import { ErasureStore } from "../outbox/erasure-store.ts";
import { GiveBackStore } from "../outbox/give-back-store.ts";
import { Outbox, SubscriberStore } from "../outbox/outbox-store.ts";
import { HorizonStore } from "../retention/horizon-store.ts";
import { NameStore, StartStore, UntaggedStore } from "../retention/name-store.ts";
import { LifecycleScanStore } from "../settings/lifecycle-scan-store.ts";
import { ClaimStore, SettingsStore } from "../settings/settings-store.ts";
import type { BranchLoop } from "../store.ts";
import { CommitStore, LineageStore } from "../tree/commit-store.ts";
import { FileStore, type HeadRow } from "../tree/file-store.ts";
import { GenerationStore, type Live, PlaceStore } from "../tree/generation-store.ts";
import { type BranchRecord, type Listing, type Pages, ReadCache } from "../tree/read-cache.ts";
import { TagStore } from "../tree/tag-store.ts";
import { CompletionStore, MultipartStore } from "../uploads/multipart-store.ts";
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

/** Everything that a Branch object has written down: its stores, the clock of its commits, and its transactions. */
export class Ledger extends ObjectLedger<BranchLoop> {
  readonly reads = new ReadCache();
  readonly generations = new GenerationStore(this.sql);
  readonly place = new PlaceStore(this.sql);
  readonly commits = new CommitStore(this.sql);
  readonly lineages = new LineageStore(this.sql);
  readonly tags = new TagStore(this.sql);
  readonly horizons = new HorizonStore(this.sql);
  readonly names = new NameStore(this.sql);
  readonly starts = new StartStore(this.sql);
  readonly untagged = new UntaggedStore(this.sql);
  readonly files = new FileStore(this.sql, this.reads);
  readonly pendingDeletions = new PendingDeletionStore(this.sql);
  readonly contents = new ContentStore(this.sql, this.pendingDeletions);
  readonly multiparts = new MultipartStore(this.sql);
  readonly sweeps = new SweepStore(this.sql, this.contents);
  readonly uploads = new UploadStore(this.sql, this);
  readonly completions = new CompletionStore(this.sql);
  readonly openCommits = new OpenCommitStore(this.sql);
  readonly staged = new StagedStore(this.sql, this.contents);
  readonly applying = new ApplyingStore(this.sql);
  readonly forks = new ForkStore(this.sql);
  readonly roots = new RootStore(this.sql);
  readonly forkHolds = new ForkHoldStore(this.sql, this.contents);
  readonly giveBacks = new GiveBackStore(this.sql);
  readonly erasures = new ErasureStore(this.sql);
  readonly erasedContents = new ErasedContentStore(this.sql);
  readonly cachePurges = new CachePurgeStore(this.sql);
  readonly exports = new ExportStore(this.sql);
  readonly imports = new ImportStore(this.sql);
  readonly claim = new ClaimStore(this.sql);
  readonly lifecycleScans = new LifecycleScanStore(this.sql);
  readonly subscribers = new SubscriberStore(this.sql);
  readonly outbox = new Outbox(this.sql);
  readonly settings: SettingsStore;
  readonly clock = new CommitClock({
    load: () => this.#loadClock(),
    save: (promised) => this.sql.run`UPDATE clock SET promised = ${promised} WHERE one = 1`,
  });
  readonly #tell: () => void;
  #operationsToLook = 0;
  readonly #watch = new SpaceWatch();

  /**
   * `almostFull`: is called when the database gets almost full, and with each hundredth after that. `modified`: whose time
   * Last-Modified is in a branch that does not say.
   */
  constructor(
    storage: LedgerStorage,
    {
      limitBytes,
      almostFull = () => {},
      modified = "branch",
    }: { limitBytes?: number; almostFull?: () => void; modified?: ModifiedOf } = {},
  ) {
    super(storage, MIGRATIONS, limitBytes);
    this.#tell = almostFull;
    this.settings = new SettingsStore(this.sql, modified);
    this.open();
  }

  override makeTables(): void {
    if (this.exists) return;
    super.makeTables();
    this.clock.load();
  }

  /** The generation that lives; null if none does, or nothing was ever written. */
  get live(): Live | null {
    return this.exists ? this.generations.live() : null;
  }

  /** What is at a path at HEAD, also while rows of the commit after it are being written. */
  presentFile({ gen, head: { seq } }: Live, path: string): HeadRow | undefined {
    return this.applying.writesTo(gen) ? this.files.at({ gen, seq }, path) : this.files.head(gen, path);
  }

  /** The object's own bucket name. The platform tells it only sometimes: then it is written down, once there are tables. */
  bucket(name: string | undefined): string {
    const stored = this.exists
      ? this.sql.first<{ bucket: string }>`SELECT bucket FROM address WHERE one = 1`?.bucket
      : undefined;
    if (stored !== undefined) return stored;
    if (name === undefined) throw new Error("a Branch object must be addressed by name");
    if (this.exists) this.sql.run`INSERT INTO address (one, bucket) VALUES (1, ${name})`;
    return name;
  }

  /** From now on the entry may find what this object reads, under the name that is written down, or else the one it was called by. */
  shareReads(name: string | undefined): void {
    const bucket = this.exists ? this.bucket(name) : name;
    if (bucket !== undefined) this.reads.share(bucket);
  }

  /** What answers of HEAD say beside what they are of. */
  recordOf({ gen, head: { modifiedAt } }: Live): BranchRecord {
    const { modified, isPublic } = this.settings.of(gen);
    return { gen, modifiedAt, modified, isPublic };
  }

  /** Whether what is read now may be told without asking, until it is withdrawn: a crash does not take it back, and no large commit is applied. */
  mayShare(): boolean {
    if (!this.reads.isShared || this.applying.get() !== null) return false;
    if (this.transactions.areDurable) return true;
    this.transactions.settle();
    return false;
  }

  /** Shares a page of a listing of the newest state, if it may be. */
  sharePage<Of extends keyof Pages>(listing: Listing<Of>, page: Pages[Of]): void {
    const { live } = this;
    if (live && this.mayShare()) this.reads.publishPage(this.recordOf(live), listing, page);
  }

  protected override withdraw(changes: Changes): void {
    this.reads.withdraw(changes);
  }

  protected override forget(): void {
    this.generations.forget();
    this.commits.forget();
    this.applying.forget();
    this.claim.forget();
    this.settings.forget();
    this.lifecycleScans.forget();
    this.horizons.forget();
    this.subscribers.forget();
  }

  /**
   * The contents on loan go that nothing keeps any more, whatever released them, and what is to be given back is written down.
   */
  protected override conclude(): void {
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
    const promised = this.sql.number`SELECT promised FROM clock WHERE one = 1`;
    const newest = this.generations.newest();
    return { promised, newestCommit: newest ? this.generations.headOf(newest).modifiedAt : 0 };
  }
}
