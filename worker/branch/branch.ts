import { DurableObject } from "cloudflare:workers";
import { monotonicFactory } from "ulid";
import type { ContentId } from "../../protocol/content.ts";
import { MAX_LIST_ENTRIES } from "../../protocol/files.ts";
import type { Body, Content } from "../blobs/content.ts";
import type { Env } from "../env.ts";
import type * as Contract from "./contract.ts";
import { HistoryCalls } from "./history/calls.ts";
import { diffCommits, inspectCommit, listCommits } from "./history/log.ts";
import { Applier } from "./large-commits/applier.ts";
import { Ledger } from "./ledger/ledger.ts";
import { LifecycleCalls } from "./lifecycle/calls.ts";
import { Courier } from "./lifecycle/courier.ts";
import type { Moment } from "./lifecycle/generation.ts";
import { openReceivers } from "./lifecycle/receivers.ts";
import { earliest, nextTidy, tidy } from "./lifecycle/tidy.ts";
import { Wakeup } from "./lifecycle/wakeup.ts";
import { OpenCommitCalls } from "./open-commits/calls.ts";
import { readFile } from "./read/file.ts";
import { listFiles } from "./read/tree.ts";
import { listVersions } from "./read/versions.ts";
import { UploadCalls } from "./uploads/calls.ts";
import { MultipartCalls } from "./uploads/multipart-calls.ts";
import { WriteCalls } from "./write/calls.ts";
import { Committer } from "./write/committer.ts";
import { Gate } from "./write/gate.ts";

/** One per branch. Owns the clock, the ids and the alarm; the ledger and its stores own the rules. */
export class Branch extends DurableObject<Env> implements Contract.BranchApi {
  readonly #ledger: Ledger;
  readonly #wakeup: Wakeup;
  readonly #uploads: UploadCalls;
  readonly #multiparts: MultipartCalls;
  readonly #openCommits: OpenCommitCalls;
  readonly #history: HistoryCalls;
  readonly #writes: WriteCalls;
  readonly #applier: Applier;
  readonly #courier: Courier;
  readonly #lifecycle: LifecycleCalls;
  /** Ids that grow, also within a millisecond. */
  readonly #ulid = monotonicFactory();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const ledger = new Ledger(ctx.storage);
    this.#ledger = ledger;
    this.#wakeup = new Wakeup({
      now: Date.now,
      nextDue: () => earliest(ledger.outbox.nextDue(), nextTidy(ledger, Date.now())),
      setAlarm: (at) => void ctx.storage.setAlarm(at),
    });
    const wake = (at: number) => this.#wakeup.by(at);
    this.#courier = new Courier({
      ledger,
      receivers: openReceivers({ ledger, env: () => this.env, bucket: () => this.#bucket() }),
      now: Date.now,
      wake,
    });
    const calls = { ledger, now: Date.now, newId: (now: number) => this.#uploadId(now), wake };
    this.#uploads = new UploadCalls(calls);
    this.#multiparts = new MultipartCalls(calls);
    const acting = {
      ledger,
      courier: this.#courier,
      moment: () => this.#moment(),
      later: (work: Promise<unknown>) => ctx.waitUntil(work),
    };
    const turn = () => scheduler.wait(0);
    this.#history = new HistoryCalls({ ledger, now: Date.now, turn });
    this.#openCommits = new OpenCommitCalls({ ledger, moment: acting.moment, wake });
    const gate = new Gate({ isClosed: () => ledger.exists && ledger.applying.get() !== null });
    const committer = new Committer(acting);
    this.#applier = new Applier({
      ...acting,
      committer,
      now: Date.now,
      pause: (ms) => scheduler.wait(ms),
      over: () => gate.opened(),
    });
    this.#lifecycle = new LifecycleCalls({ ...acting, gate, wake });
    this.#writes = new WriteCalls({
      ledger,
      committer,
      gate,
      applier: this.#applier,
      now: Date.now,
      durable: () => ctx.storage.sync(),
      turn,
      wake,
    });
    // Whoever wakes the object after a crash wakes what was cut off.
    if (ledger.exists) this.#applier.goOn();
  }

  override async alarm(): Promise<void> {
    this.#wakeup.rang();
    if (!this.#ledger.exists) return;
    this.#ledger.transaction(() => tidy(this.#ledger, Date.now()));
    this.#applier.goOn();
    await this.#courier.deliverDue();
    this.#wakeup.renew();
  }

  async create() {
    this.#makeTables();
    return await this.#lifecycle.create();
  }

  async destroy() {
    return await this.#lifecycle.destroy();
  }

  async status(): Promise<Contract.BranchStatus | Contract.Refused<"no-such-branch">> {
    const { live } = this.#ledger;
    if (!live) return refused("no-such-branch");
    const { uid, createdAt, head } = live;
    const writer = this.#ledger.writer.get()?.pipeline ?? null;
    return { ok: true, uid, createdAt, modifiedAt: head.modifiedAt, head: head.id, writer };
  }

  async read(request: Contract.ReadFile) {
    return readFile(this.#ledger, request);
  }

  async list(request: Contract.ListFiles) {
    return listFiles(this.#ledger, { ...request, limit: Math.min(request.limit, MAX_LIST_ENTRIES) });
  }

  async commits(request: { after?: string; limit: number }) {
    return listCommits(this.#ledger, { ...request, limit: Math.min(request.limit, MAX_LIST_ENTRIES) });
  }

  async commitEntry(request: { commit: string }) {
    return inspectCommit(this.#ledger, request);
  }

  async diff(request: Contract.DiffCommits) {
    return diffCommits(this.#ledger, { ...request, limit: Math.min(request.limit, MAX_LIST_ENTRIES) });
  }

  async listVersions(request: Contract.ListVersions) {
    return listVersions(this.#ledger, { ...request, limit: Math.min(request.limit, MAX_LIST_ENTRIES) });
  }

  async content(id: ContentId): Promise<{ ok: true; body: Body } | Contract.Refused<"no-such-content">> {
    const body = this.#ledger.exists ? this.#ledger.contents.body(id) : undefined;
    return body ? { ok: true, body } : refused("no-such-content");
  }

  async openUpload(request: { lease?: string }) {
    const answer = this.#uploads.open(request);
    this.#writes.tidyLater();
    return answer;
  }

  async renewUpload(request: { upload: string }) {
    return this.#uploads.renew(request);
  }

  async abortUpload(request: { upload: string }): Promise<void> {
    this.#uploads.abort(request);
    this.#writes.tidyLater();
  }

  async addContents(request: { upload: string; contents: readonly Content[] }) {
    return this.#uploads.add(request);
  }

  async reserve(request: { upload: string; contents: readonly ContentId[] }) {
    return this.#uploads.reserve(request);
  }

  async createMultipart(request: Contract.CreateMultipart) {
    return this.#multiparts.create(request);
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
    return this.#multiparts.list(request);
  }

  async saveProgress(request: { upload: string; progress: string }) {
    return this.#multiparts.saveProgress(request);
  }

  async completeMultipart(request: Contract.CompleteMultipart) {
    return await this.#writes.completeMultipart(request);
  }

  async abortMultipart(request: { upload: string }) {
    const answer = this.#multiparts.abort(request);
    this.#writes.tidyLater();
    return answer;
  }

  async put(request: Contract.PutFile) {
    return await this.#writes.put(request);
  }

  async commit(request: Contract.CommitRequest) {
    return await this.#writes.commit(request);
  }

  async startOpenCommit(request: { ttlMs: number }) {
    return this.#openCommits.open(request);
  }

  async openCommitStatus(request: { openCommit: string }) {
    return this.#openCommits.status(request);
  }

  async finishOpenCommit(request: { openCommit: string }) {
    return await this.#writes.finishOpenCommit(request);
  }

  async abortOpenCommit(request: { openCommit: string }) {
    const answer = this.#openCommits.abort(request);
    if (this.#ledger.exists) this.#applier.goOn();
    return answer;
  }

  async subscribe(request: Contract.Subscriber) {
    this.#makeTables();
    return this.#history.subscribe(request);
  }

  async unsubscribe(request: { uid: string }): Promise<void> {
    this.#history.unsubscribe(request);
  }

  async feed(request: { cursor: Contract.Cursor; limit: number }) {
    return this.#history.feed(request);
  }

  async changes(request: Contract.CommitPosition & { after: string; limit: number }) {
    return this.#history.changes(request);
  }

  async filesAt(request: Parameters<Contract.BranchApi["filesAt"]>[0]) {
    return this.#history.filesAt(request);
  }

  async fingerprint(request: Parameters<Contract.BranchApi["fingerprint"]>[0]) {
    return await this.#history.fingerprint(request);
  }

  async position(request: { commit: string }) {
    return this.#history.position(request);
  }

  async claim(owner: { pipeline: string; uid: string }) {
    this.#makeTables();
    const claimed = await this.#lifecycle.claim(owner);
    this.#applier.goOn();
    return claimed;
  }

  async release(request: { uid: string; destroy: boolean }): Promise<void> {
    await this.#lifecycle.release(request);
  }

  async commitOutput(request: Contract.OutputCommit) {
    return await this.#writes.commitOutput(request);
  }

  async stageOutput(request: Parameters<Contract.BranchApi["stageOutput"]>[0]) {
    return await this.#writes.stageOutput(request);
  }

  #makeTables(): void {
    this.#ledger.makeTables();
    this.#bucket();
  }

  #bucket(): string {
    return this.#ledger.bucket(this.ctx.id.name);
  }

  #uploadId(now: number): string {
    return `${this.#bucket()}.${this.#ulid(now)}`;
  }

  #moment(): Moment {
    return { now: Date.now(), id: (createdAt) => this.#ulid(createdAt) };
  }
}

function refused<R extends string>(reason: R): Contract.Refused<R> {
  return { ok: false, reason };
}
