import { DurableObject } from "cloudflare:workers";
import { monotonicFactory } from "ulid";
import type { ContentId } from "../../protocol/content.ts";
import { MAX_LIST_ENTRIES } from "../../protocol/files.ts";
import type { Body, Content } from "../blobs/content.ts";
import type { Env } from "../env.ts";
import { commitChanges, commitOutput, putFile } from "./commit-changes.ts";
import { Committer } from "./committer.ts";
import { completeMultipart } from "./complete-multipart.ts";
import { COMPLETION_KEPT_MS } from "./completions.ts";
import type * as Contract from "./contract.ts";
import { Courier } from "./courier.ts";
import { readChanges, readEvents } from "./feed.ts";
import { Ledger } from "./ledger.ts";
import type { Moment } from "./lifecycle.ts";
import { LifecycleCalls } from "./lifecycle-calls.ts";
import { MultipartCalls } from "./multipart-calls.ts";
import { justAfter } from "./path-order.ts";
import { PutQueue } from "./put-queue.ts";
import { filesAt, fingerprint, listFiles } from "./read.ts";
import { readFile } from "./read-file.ts";
import { openReceivers } from "./receivers.ts";
import { earliest, nextTidy, tidy } from "./tidy.ts";
import { UploadCalls } from "./upload-calls.ts";
import { listVersions } from "./versions.ts";
import { Wakeup } from "./wakeup.ts";

type CommitAnswer = Contract.Committed | Contract.CommitRefused;

/** One per branch. Owns the clock, the ids and the alarm; the ledger and its stores own the rules. */
export class Branch extends DurableObject<Env> implements Contract.BranchApi {
  readonly #ledger: Ledger;
  readonly #wakeup: Wakeup;
  readonly #uploads: UploadCalls;
  readonly #multiparts: MultipartCalls;
  readonly #committer: Committer;
  readonly #courier: Courier;
  readonly #lifecycle: LifecycleCalls;
  readonly #puts: PutQueue<Contract.PutFile, CommitAnswer>;
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
    this.#committer = new Committer(acting);
    this.#lifecycle = new LifecycleCalls({ ...acting, wake });
    this.#puts = new PutQueue({
      run: (puts) => this.#putAll(puts),
      durable: () => ctx.storage.sync(),
      turn: () => scheduler.wait(0),
    });
  }

  override async alarm(): Promise<void> {
    this.#wakeup.rang();
    if (!this.#ledger.exists) return;
    this.#ledger.transaction(() => tidy(this.#ledger, Date.now()));
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

  async listVersions(request: Contract.ListVersions) {
    return listVersions(this.#ledger, { ...request, limit: Math.min(request.limit, MAX_LIST_ENTRIES) });
  }

  async content(id: ContentId): Promise<{ ok: true; body: Body } | Contract.Refused<"no-such-content">> {
    const body = this.#ledger.exists ? this.#ledger.contents.body(id) : undefined;
    return body ? { ok: true, body } : refused("no-such-content");
  }

  async openUpload(request: { lease?: string }) {
    const answer = this.#uploads.open(request);
    this.#tidyLater();
    return answer;
  }

  async renewUpload(request: { upload: string }) {
    return this.#uploads.renew(request);
  }

  async abortUpload(request: { upload: string }): Promise<void> {
    this.#uploads.abort(request);
    this.#tidyLater();
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
    const answer = this.#commit((stamps) => completeMultipart(this.#ledger, { request, stamps }));
    if (answer.ok) this.#wakeup.by(Date.now() + COMPLETION_KEPT_MS);
    return answer;
  }

  async abortMultipart(request: { upload: string }) {
    const answer = this.#multiparts.abort(request);
    this.#tidyLater();
    return answer;
  }

  async put(request: Contract.PutFile): Promise<CommitAnswer> {
    return this.#ledger.exists ? await this.#puts.add(request) : refused("no-such-branch");
  }

  async commit(request: Contract.CommitRequest): Promise<CommitAnswer> {
    return this.#commit((stamps) => commitChanges(this.#ledger, { request, stamps }));
  }

  async subscribe({ uid, pipeline }: Contract.Subscriber) {
    this.#makeTables();
    this.#ledger.transaction(() => this.#ledger.subscribers.add({ uid, pipeline }));
    const generation = this.#ledger.generations.newest();
    const seq = generation ? this.#ledger.generations.headOf(generation).seq : 0;
    const cursor = { generation: generation?.gen ?? 0, seq };
    return { ok: true as const, cursor, exists: generation?.deletedAt === null };
  }

  async unsubscribe({ uid }: { uid: string }): Promise<void> {
    if (!this.#ledger.exists) return;
    this.#ledger.transaction(() => {
      this.#ledger.subscribers.remove(uid);
      this.#ledger.outbox.drop({ topic: "bell", uid });
    });
  }

  async feed({ cursor, limit }: { cursor: Contract.Cursor; limit: number }): Promise<Contract.FeedPage> {
    const durable = this.#ledger.exists;
    const { generation: gen, seq } = cursor;
    const page = durable ? readEvents(this.#ledger, { gen, seq, limit }) : { events: [], more: false };
    return { ...page, now: this.#ledger.clock.promise(Date.now(), { durable }) };
  }

  async changes({
    generation: gen,
    seq,
    after,
    limit,
  }: Contract.CommitPosition & { after: string; limit: number }) {
    if (!this.#ledger.exists) return { changes: [], next: null };
    return readChanges(this.#ledger, { gen, seq, lower: after === "" ? "" : justAfter(after), limit });
  }

  async filesAt(request: Contract.CommitPosition & { prefix: string; after: string; limit: number }) {
    const { generation: gen, seq, prefix, after } = request;
    const page = { prefix, after, limit: Math.min(request.limit, MAX_LIST_ENTRIES) };
    return filesAt(this.#ledger, { position: { gen, seq }, page });
  }

  async fingerprint({ generation: gen, seq, path }: Contract.CommitPosition & { path: string }) {
    return await fingerprint(this.#ledger, {
      position: { gen, seq },
      path,
      pause: () => scheduler.wait(0),
    });
  }

  async claim(owner: { pipeline: string; uid: string }) {
    this.#makeTables();
    return await this.#lifecycle.claim(owner);
  }

  async release(request: { uid: string; destroy: boolean }): Promise<void> {
    await this.#lifecycle.release(request);
  }

  async commitOutput(request: Contract.OutputCommit): Promise<CommitAnswer> {
    return this.#commit((stamps): CommitAnswer => commitOutput(this.#ledger, { request, stamps }));
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

  /** Only where there are tables. */
  #commit<A extends Contract.Completed | CommitAnswer | Contract.Refused<string>>(
    work: (moment: Moment) => A,
  ): A | Contract.Refused<"no-such-branch"> {
    if (!this.#ledger.exists) return refused("no-such-branch");
    const answer = this.#committer.one(work);
    this.#tidyLater();
    return answer;
  }

  #putAll(puts: readonly Contract.PutFile[]): CommitAnswer[] {
    const answers = this.#committer.each(puts, (put, stamps) => putFile(this.#ledger, { put, stamps }));
    this.#tidyLater();
    return answers;
  }

  /** What a call left to tidy is for the alarm. */
  #tidyLater(): void {
    if (this.#ledger.contents.isLeft) this.#wakeup.by(Date.now());
  }
}

function refused<R extends string>(reason: R): Contract.Refused<R> {
  return { ok: false, reason };
}
