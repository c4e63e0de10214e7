import { DurableObject } from "cloudflare:workers";
import { monotonicFactory } from "ulid";
import type { ContentId } from "../../protocol/content.ts";
import { MAX_LIST_ENTRIES } from "../../protocol/files.ts";
import type { Body, Content } from "../blobs/content.ts";
import type { Env } from "../env.ts";
import { commitChanges, commitOutput, putFile } from "./commit-changes.ts";
import type * as Contract from "./contract.ts";
import { Courier } from "./courier.ts";
import { Creation } from "./creation.ts";
import { readChanges, readEvents } from "./feed.ts";
import { Ledger } from "./ledger.ts";
import { claimBranch, endGeneration, type Moment, releaseBranch } from "./lifecycle.ts";
import { justAfter } from "./path-order.ts";
import { PutQueue } from "./put-queue.ts";
import { filesAt, fingerprint, listFiles, readFile } from "./read.ts";
import { openReceivers } from "./receivers.ts";
import type { UploadRow } from "./uploads.ts";

type CommitAnswer = Contract.Committed | Contract.CommitRefused;

/** One per branch. Owns the clock, the ids and the alarm; the ledger and its stores own the rules. */
export class Branch extends DurableObject<Env> implements Contract.BranchApi {
  readonly #ledger: Ledger;
  readonly #courier: Courier;
  readonly #creation: Creation;
  readonly #puts: PutQueue<Contract.PutFile, CommitAnswer>;
  /** Ids that grow, also within a millisecond. */
  readonly #ulid = monotonicFactory();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const ledger = new Ledger(ctx.storage);
    this.#ledger = ledger;
    this.#courier = new Courier({
      ledger,
      receivers: openReceivers({ ledger, env: () => this.env, bucket: () => this.#bucket() }),
      now: Date.now,
      setAlarm: (at) => void ctx.storage.setAlarm(at),
    });
    this.#creation = new Creation(ledger, this.#courier);
    this.#puts = new PutQueue({
      run: (puts) => this.#putAll(puts),
      durable: () => ctx.storage.sync(),
      turn: () => scheduler.wait(0),
    });
  }

  override async alarm(): Promise<void> {
    await this.#courier.alarm();
  }

  async create() {
    this.#makeTables();
    return await this.#creation.create(this.#moment());
  }

  async destroy(): Promise<
    Contract.Done | Contract.Refused<"no-such-branch" | "pipeline-output" | "catalogue-unavailable">
  > {
    const live = this.#live();
    if (!live) return refused("no-such-branch");
    if (this.#ledger.writer.get()) return refused("pipeline-output");
    this.#ledger.transaction(() => endGeneration(this.#ledger, { live, moment: this.#moment() }));
    return (await this.#announceDeletion()) ? { ok: true } : refused("catalogue-unavailable");
  }

  async status(): Promise<Contract.BranchStatus | Contract.Refused<"no-such-branch">> {
    const live = this.#live();
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

  async content(id: ContentId): Promise<{ ok: true; body: Body } | Contract.Refused<"no-such-content">> {
    const body = this.#ledger.exists ? this.#ledger.contents.body(id) : undefined;
    return body ? { ok: true, body } : refused("no-such-content");
  }

  async openUpload({
    lease,
  }: {
    lease?: string;
  }): Promise<Contract.UploadOpened | Contract.Refused<"no-such-branch" | "pipeline-output">> {
    const live = this.#live();
    const claimed = live !== null && this.#ledger.writer.get() !== null;
    // A lease of a pipeline that is gone has no output branch to upload to.
    if (!live || (lease !== undefined && !claimed)) return refused("no-such-branch");
    if (lease === undefined && claimed) return refused("pipeline-output");
    const now = Date.now();
    const id = `${this.#bucket()}.${this.#ulid(now)}`;
    const upload = this.#ledger.transaction(() =>
      this.#ledger.uploads.open({ id, gen: live.gen, lease: lease ?? null, now }),
    );
    return { ok: true, upload, uid: live.uid };
  }

  async renewUpload({ upload }: { upload: string }) {
    return this.#withUpload(upload, (row, uid): Contract.UploadOpened => {
      this.#ledger.uploads.renew(row.id, Date.now());
      return { ok: true, upload, uid };
    });
  }

  async abortUpload({ upload }: { upload: string }): Promise<void> {
    if (!this.#ledger.exists) return;
    this.#ledger.transaction(() => this.#ledger.uploads.close(upload, Date.now()));
  }

  async addContents({ upload, contents }: { upload: string; contents: readonly Content[] }) {
    return this.#withUpload(upload, (row) => {
      this.#ledger.uploads.add(row, { contents, now: Date.now() });
      return { ok: true } as const;
    });
  }

  async reserve({ upload, contents }: { upload: string; contents: readonly ContentId[] }) {
    return this.#withUpload(upload, (row) => {
      const missing = this.#ledger.uploads.reserve(row, { contents, now: Date.now() });
      return { ok: true, missing } as const;
    });
  }

  async put(request: Contract.PutFile): Promise<CommitAnswer> {
    return this.#ledger.exists ? await this.#puts.add(request) : refused("no-such-branch");
  }

  async commit(request: Contract.CommitRequest): Promise<CommitAnswer> {
    return this.#commitOne((stamps) => commitChanges(this.#ledger, { request, stamps }));
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

  async claim({
    pipeline,
    uid,
  }: {
    pipeline: string;
    uid: string;
  }): Promise<
    | { ok: true; epoch: number }
    | Contract.Refused<"already-claimed" | "already-exists" | "catalogue-unavailable">
  > {
    this.#makeTables();
    const claimed = this.#ledger.transaction(() =>
      claimBranch(this.#ledger, { pipeline, uid, moment: this.#moment() }),
    );
    if (!claimed.ok || !this.#courier.catalogueWaits) return claimed;
    this.#courier.watch();
    return (await this.#courier.flushCatalogue()) ? claimed : refused("catalogue-unavailable");
  }

  async release({ uid, destroy }: { uid: string; destroy: boolean }): Promise<void> {
    if (!this.#ledger.exists || this.#ledger.writer.get()?.uid !== uid) return;
    const live = this.#ledger.generations.live();
    const moment = this.#moment();
    this.#ledger.transaction(() => {
      releaseBranch(this.#ledger, moment);
      if (destroy && live) endGeneration(this.#ledger, { live, moment });
    });
    if (destroy && live) await this.#announceDeletion();
  }

  async commitOutput(request: Contract.OutputCommit): Promise<CommitAnswer> {
    return this.#commitOne((stamps) => commitOutput(this.#ledger, { request, stamps }));
  }

  #live() {
    return this.#ledger.exists ? this.#ledger.generations.live() : null;
  }

  #makeTables(): void {
    this.#ledger.makeTables();
    this.#bucket();
  }

  #bucket(): string {
    return this.#ledger.bucket(this.ctx.id.name);
  }

  #moment(): Moment {
    return { now: Date.now(), id: (createdAt) => this.#ulid(createdAt) };
  }

  /** Works on an upload of the live branch that is open, in a transaction. */
  #withUpload<A>(
    upload: string,
    work: (row: UploadRow, uid: string) => A,
  ): A | Contract.Refused<"no-such-upload"> {
    const live = this.#live();
    if (!live) return refused("no-such-upload");
    return this.#ledger.transaction(() => {
      const row = this.#ledger.uploads.find(upload, live.gen);
      return row ? work(row, live.uid) : refused("no-such-upload");
    });
  }

  #putAll(puts: readonly Contract.PutFile[]): CommitAnswer[] {
    return this.#committing((moment) => puts.map((put) => putFile(this.#ledger, { put, stamps: moment })));
  }

  #commitOne(work: (moment: Moment) => CommitAnswer): CommitAnswer {
    if (!this.#ledger.exists) return refused("no-such-branch");
    return this.#committing((moment) => [work(moment)])[0] as CommitAnswer;
  }

  /** Commits, and the doorbells that they ring, in one transaction. */
  #committing(work: (moment: Moment) => CommitAnswer[]): CommitAnswer[] {
    const subscribers = this.#ledger.subscribers.all();
    const moment = this.#moment();
    const answers = this.#ledger.transaction(() => {
      const answers = work(moment);
      const event = answers.findLast((answer) => answer.ok && answer.commit !== null);
      if (event?.ok && event.commit !== null) {
        this.#ledger.outbox.ring(subscribers, { event: event.commit, now: moment.now });
      }
      return answers;
    });
    if (subscribers.length > 0) this.#dispatch();
    return answers;
  }

  /** The catalogue first: a caller waits for it. */
  async #announceDeletion(): Promise<boolean> {
    this.#courier.watch();
    const announced = this.#courier.flushCatalogue();
    this.ctx.waitUntil(announced.then(() => this.#courier.dispatch()));
    return await announced;
  }

  #dispatch(): void {
    this.#courier.watch();
    this.ctx.waitUntil(this.#courier.dispatch());
  }
}

function refused<R extends string>(reason: R): Contract.Refused<R> {
  return { ok: false, reason };
}
