import { DurableObject } from "cloudflare:workers";
import { monotonicFactory } from "ulid";
import type { ContentId } from "../../protocol/content.ts";
import { MAX_LIST_ENTRIES } from "../../protocol/files.ts";
import type { Body, Content } from "../blobs/content.ts";
import { openBlobStore, removeUnwanted } from "../blobs/stores.ts";
import { openCatalogue } from "../catalogue/catalogue.ts";
import { type Env, readConfig } from "../env.ts";
import { Engine } from "../objects/engine.ts";
import { mustNotBeNobody } from "../objects/made-objects.ts";
import { yieldToOthers } from "../objects/turns.ts";
import type { BranchContext } from "./context.ts";
import type * as Contract from "./contract.ts";
import { ErasureCalls } from "./erasures/calls.ts";
import { LendCalls } from "./forks/lend.ts";
import { ExportCalls } from "./history/archives/export.ts";
import { HistoryCalls } from "./history/calls.ts";
import { diffCommits } from "./history/diff.ts";
import { inspectCommit, listCommits } from "./history/log.ts";
import { redactCommit } from "./history/redact.ts";
import { TagCalls } from "./history/tags.ts";
import { Ledger } from "./ledger/ledger.ts";
import { LifecycleCalls } from "./lifecycle/calls.ts";
import { OpenCommitCalls } from "./open-commits/calls.ts";
import { openCommitChanges } from "./read/changes.ts";
import { CheckCalls } from "./read/check.ts";
import { readFile } from "./read/file.ts";
import { keepBlobs } from "./read/keep-blobs.ts";
import { listFiles } from "./read/tree.ts";
import { branchUsage } from "./read/usage.ts";
import { listVersions } from "./read/versions.ts";
import { showView } from "./read/views.ts";
import { isPublic, letsIn } from "./settings/settings.ts";
import { UploadCalls } from "./uploads/calls.ts";
import { MultipartCalls } from "./uploads/multipart-calls.ts";
import { Collector } from "./work/blob-reaper.ts";
import { forkCheck } from "./work/forks/fork-check.ts";
import { Forker, shownFork } from "./work/forks/forker.ts";
import { Retainer } from "./work/history-gc/retainer.ts";
import { housekeeping } from "./work/housekeeping.ts";
import { Importer } from "./work/imports/importer.ts";
import { Applier } from "./work/large-commit/applier.ts";
import { Rounds } from "./work/lifecycle-scan/rounds.ts";
import { Sweeper } from "./work/orphan-scan.ts";
import { Courier } from "./work/outbox/courier.ts";
import { openReceivers } from "./work/outbox/receivers.ts";
import { WriteCalls } from "./write/calls.ts";
import { Committer } from "./write/committer.ts";
import { Gate } from "./write/gate.ts";

/** One per branch. Owns the clock, the ids and the alarm; the ledger and its stores own the rules. */
export class Branch extends DurableObject<Env> implements Contract.BranchApi {
  readonly #ledger: Ledger;
  readonly #context: BranchContext;
  readonly #engine: Engine;
  readonly #sweeper: Sweeper;
  readonly #checks: CheckCalls;
  readonly #forker: Forker;
  readonly #gate: Gate;
  readonly #lend: LendCalls;
  readonly #exports: ExportCalls;
  readonly #importer: Importer;
  readonly #lifecycle: LifecycleCalls;
  readonly #uploads: UploadCalls;
  readonly #multiparts: MultipartCalls;
  readonly #openCommits: OpenCommitCalls;
  readonly #writes: WriteCalls;
  readonly #history: HistoryCalls;
  readonly #tags: TagCalls;
  readonly #erasures: ErasureCalls;
  /** Ids that grow, also within a millisecond. */
  readonly #ulid = monotonicFactory();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const read = readConfig(env);
    const ledger = new Ledger(ctx.storage, {
      ...(read.ok && { limitBytes: read.config.branchBytes, modified: read.config.lastModified }),
      almostFull: () => ctx.waitUntil(this.#tellAlmostFull()),
    });
    this.#ledger = ledger;
    const context: BranchContext = {
      ledger,
      now: Date.now,
      moment: () => ({ now: Date.now(), id: (createdAt) => this.#ulid(createdAt) }),
      resting: async (loop) => this.#engine.resting(loop),
      pause: (ms) => scheduler.wait(ms),
      turn: yieldToOthers,
      durable: () => ctx.storage.sync(),
    };
    this.#context = context;
    const uploadContext = { ...context, newId: (now: number) => `${this.#bucket()}.${this.#ulid(now)}` };
    const receivers = openReceivers({ ledger, env: () => this.env, bucket: () => this.#bucket() });
    const courier = new Courier({ ...context, receivers });
    const gate = new Gate({ isClosed: () => ledger.exists && ledger.applying.get() !== null });
    this.#gate = gate;
    const committer = new Committer(context);
    const applier = new Applier({ ...context, committer, gate });
    this.#sweeper = new Sweeper({
      ...context,
      store: () => openBlobStore(this.env),
      bucket: () => this.#bucket(),
    });
    this.#checks = new CheckCalls(context);
    this.#forker = new Forker({
      ...context,
      courier,
      committer,
      bucket: () => this.#bucket(),
      branch: (bucket) => this.#other(bucket),
    });
    this.#lend = new LendCalls(context);
    this.#exports = new ExportCalls(context);
    this.#importer = new Importer({
      ...context,
      courier,
      forker: this.#forker,
      bucket: () => this.#bucket(),
    });
    this.#lifecycle = new LifecycleCalls({ ...context, courier, gate, forker: this.#forker });
    this.#uploads = new UploadCalls(uploadContext);
    this.#multiparts = new MultipartCalls(uploadContext);
    this.#openCommits = new OpenCommitCalls(context);
    this.#writes = new WriteCalls({ ...context, committer, gate, applier });
    this.#history = new HistoryCalls(context);
    this.#tags = new TagCalls({ ...context, courier });
    this.#erasures = new ErasureCalls({ ...context, gate });
    this.#engine = new Engine({
      object: () => `branch ${this.#bucket()}`,
      exists: () => ledger.exists,
      now: Date.now,
      storage: ctx.storage,
      afterAnswers: true,
      loops: [
        courier,
        housekeeping(context),
        new Collector({ ...context, remove: (unwanted) => removeUnwanted(this.env, unwanted) }),
        this.#sweeper,
        applier,
        this.#forker,
        forkCheck({ ...context, branch: (bucket) => this.#other(bucket) }),
        new Rounds({ ...context, committer }),
        new Retainer(context),
        this.#importer,
      ],
    });
    ledger.listener = (woken) => this.#engine.woken(woken);
    // What a crash cut off goes on with the first call, without waiting for the alarm.
    if (ledger.exists) ctx.waitUntil(this.#engine.resume());
  }

  override async alarm(): Promise<void> {
    await this.#engine.alarm();
  }

  async create(request?: Contract.CreateBranch) {
    if (!this.#ledger.live) {
      const fault = await openCatalogue(this.env.DB).fault();
      if (fault) return refused(fault);
    }
    this.#makeTables();
    return await this.#lifecycle.create(request);
  }

  async fork(request: Contract.ForkBranch): Promise<Contract.AnswerOf<"fork">> {
    if (!this.#ledger.live) {
      const fault = await openCatalogue(this.env.DB).fault();
      if (fault) return refused(fault);
    }
    this.#makeTables();
    return await this.#forker.make(request);
  }

  async inspect(): Promise<Contract.AnswerOf<"inspect">> {
    const { exists, live, forks } = this.#ledger;
    const fork = exists ? forks.present() : undefined;
    const shown = fork && fork.state !== "asked" ? shownFork(fork) : null;
    if (live) {
      const { uid, createdAt, gen, head } = live;
      const { keep } = this.#ledger.settings.of(gen);
      const { at, by = null } = this.#ledger.imports.of(uid) ?? {};
      const imported = at === undefined ? null : { at, by };
      return { ok: true, uid, createdAt, head: head.id, keep, fork: shown, imported };
    }
    if (!shown) return refused("no-such-branch");
    const { uid, createdAt } = shown;
    return { ok: true, uid, createdAt, head: null, keep: null, fork: shown, imported: null };
  }

  async addRoot(request: Contract.RequestOf<"addRoot">) {
    return this.#lend.addRoot(request);
  }

  async rootPage(request: Contract.RequestOf<"rootPage">) {
    return await this.#lend.rootPage(request);
  }

  async dropRoot(request: Contract.RequestOf<"dropRoot">): Promise<void> {
    this.#lend.dropRoot(request);
  }

  async beginExport() {
    return this.#told(this.#exports.begin());
  }

  async exportCommits(request: Contract.RequestOf<"exportCommits">) {
    return this.#exports.commits(request);
  }

  async exportTags(request: Contract.RequestOf<"exportTags">) {
    return this.#exports.tags(request);
  }

  async exportFiles(request: Contract.RequestOf<"exportFiles">) {
    return await this.#exports.files(request);
  }

  async endExport(request: Contract.RequestOf<"endExport">): Promise<void> {
    this.#exports.end(request);
  }

  async beginImport(request: Contract.RequestOf<"beginImport">): Promise<Contract.AnswerOf<"beginImport">> {
    if (!this.#ledger.live) {
      const fault = await openCatalogue(this.env.DB).fault();
      if (fault) return refused(fault);
    }
    this.#makeTables();
    return await this.#importer.begin(request);
  }

  async importCommits(request: Contract.RequestOf<"importCommits">) {
    return this.#importer.commits(request);
  }

  async importTags(request: Contract.RequestOf<"importTags">) {
    return this.#importer.tags(request);
  }

  async importFiles(request: Contract.RequestOf<"importFiles">) {
    return this.#importer.files(request);
  }

  async finishImport(request: Contract.RequestOf<"finishImport">) {
    return this.#ledger.exists ? await this.#importer.finish(request) : refused("no-such-import" as const);
  }

  async abortImport(request: Contract.RequestOf<"abortImport">): Promise<void> {
    this.#importer.abort(request);
  }

  async settings(): Promise<Contract.AnswerOf<"settings">> {
    const { live, settings } = this.#ledger;
    if (!live) return this.#absent();
    const { isPublic, cors, writer, lifecycle, keep, modified, emptyOnly } = settings.of(live.gen);
    return { ok: true, public: isPublic, cors, writer, lifecycle, keep, modified, emptyOnly };
  }

  async configure(change: Contract.SettingsChange): Promise<Contract.AnswerOf<"configure">> {
    if (!this.#ledger.live) return this.#absent();
    const fault = letsIn(change) ? await openCatalogue(this.env.DB).fault() : undefined;
    if (fault === "catalogue-outdated" || fault === "other-family") return refused(fault);
    return await this.#lifecycle.configure(change);
  }

  async destroy(request?: Contract.DestroyBranch) {
    return await this.#lifecycle.destroy(request);
  }

  async announce() {
    return await this.#lifecycle.announce();
  }

  async status({ publicOnly = false }: Contract.PublicRead = {}): Promise<Contract.AnswerOf<"status">> {
    const { live } = this.#ledger;
    if (publicOnly && !isPublic(this.#ledger)) return refused("not-public");
    if (!live) return this.#absent();
    const { uid, createdAt, head } = live;
    const claimedBy = this.#ledger.claim.get()?.pipeline ?? null;
    return { ok: true, uid, createdAt, modifiedAt: head.modifiedAt, head: head.id, claimedBy };
  }

  async loops(): Promise<Contract.AnswerOf<"loops">> {
    return this.#ledger.exists ? { loops: this.#engine.standing() } : null;
  }

  async usage(request: Contract.RequestOf<"usage">) {
    return this.#told(await branchUsage(this.#context, request));
  }

  async view(request: Contract.RequestOf<"view">) {
    return this.#told(showView(this.#ledger, request));
  }

  async read(request: Contract.ReadFile) {
    return this.#told(readFile(this.#ledger, request));
  }

  async list(request: Contract.ListFiles) {
    return this.#told(listFiles(this.#ledger, bounded(request)));
  }

  async commits(request: { after?: string; limit: number }) {
    return this.#told(listCommits(this.#ledger, bounded(request)));
  }

  async commitEntry(request: { commit: string }) {
    return this.#told(inspectCommit(this.#ledger, request));
  }

  async redactCommit(request: Contract.RequestOf<"redactCommit">) {
    return this.#told(await redactCommit({ ...this.#context, gate: this.#gate }, request));
  }

  async diff(request: Contract.DiffCommits) {
    return this.#told(diffCommits(this.#ledger, bounded(request)));
  }

  async tag(request: { name: string }) {
    return this.#told(this.#tags.find(request));
  }

  async createTag(request: Contract.RequestOf<"createTag">) {
    return this.#told(await this.#tags.create(request));
  }

  async deleteTag(request: Contract.RequestOf<"deleteTag">) {
    return this.#told(await this.#tags.delete(request));
  }

  async listVersions(request: Contract.ListVersions) {
    return this.#told(listVersions(this.#ledger, bounded(request)));
  }

  async content({
    liveOnly,
    ...id
  }: Contract.ReadContent): Promise<{ ok: true; body: Body } | Contract.Refused<"no-such-content">> {
    const { exists, live, contents } = this.#ledger;
    const body =
      exists && (live || !liveOnly) ? contents.body(id, liveOnly ? live?.gen : undefined) : undefined;
    return body ? { ok: true, body } : refused("no-such-content");
  }

  async openUpload(request: Contract.RequestOf<"openUpload">) {
    return this.#told(this.#uploads.open(request));
  }

  async abortLeases(request: Contract.RequestOf<"abortLeases">) {
    this.#uploads.abortLeases(request);
  }

  async heldBodies(request: Contract.RequestOf<"heldBodies">) {
    return this.#uploads.bodies(request);
  }

  async renewUpload(request: { upload: string }) {
    return this.#uploads.renew(request);
  }

  async abortUpload(request: Contract.RequestOf<"abortUpload">): Promise<void> {
    this.#uploads.abort(request);
  }

  async trimUploads(request: Contract.RequestOf<"trimUploads">): Promise<void> {
    await this.#uploads.trim(request);
  }

  async sweep(request: Contract.RequestOf<"sweep">) {
    return this.#sweeper.ask(request);
  }

  async sweepStatus(request: Contract.RequestOf<"sweepStatus">) {
    return this.#sweeper.status(request);
  }

  async keepBlobs(request: Contract.RequestOf<"keepBlobs">) {
    return keepBlobs(this.#ledger, { ...request, now: Date.now() });
  }

  async checkNames(request: Contract.RequestOf<"checkNames">) {
    return this.#checks.names(request);
  }

  async checkContents(request: Contract.RequestOf<"checkContents">) {
    return this.#checks.contents(request);
  }

  async namesOf(request: Contract.RequestOf<"namesOf">) {
    return await this.#checks.namesOf(request);
  }

  async pinnedFor(request: Contract.RequestOf<"pinnedFor">) {
    return this.#checks.pinnedFor(request);
  }

  async addContents(request: { upload: string; contents: readonly Content[] }) {
    return this.#uploads.add(request);
  }

  async letGo(request: Contract.RequestOf<"letGo">): Promise<void> {
    this.#uploads.letGo(request);
  }

  async reserve(request: { upload: string; contents: readonly ContentId[] }) {
    return this.#uploads.reserve(request);
  }

  async createMultipart(request: Contract.CreateMultipart) {
    return this.#told(this.#multiparts.create(request));
  }

  async multipart(request: { upload: string }) {
    return this.#multiparts.status(request);
  }

  async addPart(request: Contract.AddPart) {
    return this.#multiparts.addPart(request);
  }

  async listParts(request: { upload: string; after: number; limit: number }) {
    return this.#multiparts.listParts(request);
  }

  async partBodies(request: { upload: string; numbers: readonly number[] }) {
    return this.#multiparts.bodies(request);
  }

  async listMultiparts(request: Contract.ListMultiparts) {
    return this.#told(this.#multiparts.list(request));
  }

  async saveProgress(request: { upload: string; progress: string }) {
    return this.#multiparts.saveProgress(request);
  }

  async completeMultipart(request: Contract.CompleteMultipart) {
    return await this.#writes.completeMultipart(request);
  }

  async abortMultipart(request: { upload: string }) {
    return this.#multiparts.abort(request);
  }

  async put(request: Contract.PutFile) {
    return this.#told(await this.#writes.put(request));
  }

  async commit(request: Contract.CommitRequest) {
    return this.#told(await this.#writes.commit(request));
  }

  async setTags(request: Contract.SetTags) {
    return this.#told(await this.#writes.setTags(request));
  }

  async revert(request: Contract.RequestOf<"revert">) {
    return this.#told(await this.#writes.revert(request));
  }

  async startOpenCommit(request: Contract.RequestOf<"startOpenCommit">) {
    return this.#told(this.#openCommits.start(request));
  }

  async openCommitStatus(request: { openCommit: string }) {
    return this.#openCommits.status(request);
  }

  async openCommits(request: Contract.RequestOf<"openCommits">) {
    return this.#told(this.#openCommits.list(request));
  }

  async openCommitChanges(request: Contract.RequestOf<"openCommitChanges">) {
    return openCommitChanges(this.#ledger, request);
  }

  async finishOpenCommit(request: Contract.RequestOf<"finishOpenCommit">) {
    return await this.#writes.finishOpenCommit(request);
  }

  async abortOpenCommit(request: { openCommit: string }) {
    return this.#openCommits.abort(request);
  }

  async erase(request: Contract.EraseVersions) {
    return this.#told(await this.#erasures.erase(request));
  }

  async spans(request: Contract.RequestOf<"spans">) {
    return this.#erasures.spans(request);
  }

  async copies(request: Contract.RequestOf<"copies">) {
    return this.#erasures.copies(request);
  }

  async giveBack(request: Contract.RequestOf<"giveBack">) {
    return this.#lend.giveBack(request);
  }

  async holders(request: Contract.RequestOf<"holders">) {
    return this.#told(await this.#erasures.holders(request));
  }

  async erasures(request: Contract.RequestOf<"erasures">) {
    return this.#erasures.erasures(request);
  }

  async subscribe(request: Contract.Subscription) {
    this.#makeTables();
    return this.#history.subscribe(request);
  }

  async unsubscribe(request: Contract.RequestOf<"unsubscribe">): Promise<void> {
    this.#history.unsubscribe(request);
  }

  async need(request: Contract.SubscriberNeed): Promise<void> {
    this.#history.need(request);
  }

  async feed(request: { cursor: Contract.Cursor; limit: number }) {
    return this.#history.feed(request);
  }

  async changes(request: Contract.CommitPosition & { after: string; limit: number }) {
    return this.#history.changes(request);
  }

  async filesAt(request: Contract.RequestOf<"filesAt">) {
    return this.#history.filesAt(request);
  }

  async fingerprint(request: Contract.RequestOf<"fingerprint">) {
    return await this.#history.fingerprint(request);
  }

  async compare(request: Contract.ComparePaths) {
    return await this.#history.compare(request);
  }

  async keptCommits(request: Contract.RequestOf<"keptCommits">) {
    return this.#history.keptCommits(request);
  }

  async position(request: { commit: string }) {
    return this.#history.position(request);
  }

  async claim(owner: { pipeline: string; uid: string }) {
    this.#makeTables();
    return await this.#lifecycle.claim(owner);
  }

  async release(request: { uid: string; destroy: boolean }): Promise<void> {
    await this.#lifecycle.release(request);
  }

  async commitOutput(request: Contract.OutputCommit) {
    return await this.#writes.commitOutput(request);
  }

  async stageOutput(request: Contract.StageOutput) {
    return await this.#writes.stageOutput(request);
  }

  /** What is said if no generation lives. A fork whose rows are on their way is not there for anybody: it is soon. */
  #absent(): Contract.Refused<"no-such-branch" | "forking"> {
    const { exists, live, forks } = this.#ledger;
    return refused(exists && !live && forks.coming() ? "forking" : "no-such-branch");
  }

  /** An answer, unless it is that there is no branch, or no view of one, although one is on its way. */
  #told<A extends { readonly ok: true } | { readonly ok: false; readonly reason: string }>(
    answer: A,
  ): A | Contract.Refused<"forking"> {
    if (answer.ok || (answer.reason !== "no-such-branch" && answer.reason !== "no-such-open-commit")) {
      return answer;
    }
    return this.#absent().reason === "forking" ? refused("forking") : answer;
  }

  #makeTables(): void {
    mustNotBeNobody(this.ctx.id.name);
    this.#ledger.makeTables();
    this.#bucket();
  }

  /** Another branch. */
  #other(bucket: string): Contract.BranchApi {
    // The stub's type wraps every answer for RPC; what comes over it is the plain data of the contract.
    return this.env.BRANCH.getByName(bucket) as unknown as Contract.BranchApi;
  }

  #bucket(): string {
    return this.#ledger.bucket(this.ctx.id.name);
  }

  /** Nothing depends on it: what gets lost is said again with the next hundredth. */
  async #tellAlmostFull(): Promise<void> {
    try {
      const { almostFull } = openCatalogue(this.env.DB);
      await almostFull.tell({ kind: "branch", name: this.#bucket(), toldAt: Date.now() });
    } catch (error) {
      console.warn(`the catalogue could not be told that the branch is almost full: ${error}`);
    }
  }
}

/** As much as one answer holds. */
function bounded<R extends { readonly limit: number }>(request: R): R {
  return { ...request, limit: Math.min(request.limit, MAX_LIST_ENTRIES) };
}

function refused<R extends string>(reason: R): Contract.Refused<R> {
  return { ok: false, reason };
}
