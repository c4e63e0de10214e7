import { DurableObject } from "cloudflare:workers";
import { monotonicFactory } from "ulid";
import type { ContentId } from "../../protocol/content.ts";
import type { FileEntry } from "../../protocol/files.ts";
import { type BranchAddress, bucketName, parseBucketName } from "../../protocol/names.ts";
import type { Body, Content } from "../blobs/content.ts";
import { openBlobStore } from "../blobs/open.ts";
import { openCatalogue } from "../catalogue/catalogue.ts";
import type { Env } from "../env.ts";
import type * as contract from "../branch/contract.ts";
import { contentBody, hasContent, registerContent } from "./contents.ts";
import { changesOf, eventsAfter } from "./feed.ts";
import { fingerprintAt } from "./fingerprint.ts";
import { beginGeneration, catalogueVersion, endGeneration, type Generation, newestGeneration } from "./generations.ts";
import { Ledger, type Stamp } from "./ledger.ts";
import { listPage } from "./listing.ts";
import { delivered, type Letter, lettersDue, nextDue, post, undelivered } from "./outbox.ts";
import { commitById, headCommit, type Moment, newestTime } from "./position.ts";
import { PutQueue } from "./put-queue.ts";
import { RolledBack } from "./rolled-back.ts";
import { kindName } from "./rows.ts";
import { hasTables, migrate } from "./schema.ts";
import { fileAt, pathsAt } from "./tree.ts";
import { closeUpload, hold, openUpload, renewUpload, uploadGeneration } from "./uploads.ts";
import { releaseWriter, takeWriter, writerOf } from "./writer.ts";

/** Most letters delivered in one go. */
const DELIVERIES_AT_ONCE = 32;

/** How long a delivery may take before the alarm tries it again. */
const DELIVERY_MS = 10_000;

const EMPTY: Body = { kind: "inline", bytes: new Uint8Array(0) };
const NO_BRANCH = { ok: false, reason: "no-such-branch" } as const;
const NO_UPLOAD = { ok: false, reason: "no-such-upload" } as const;

/** One per branch, for good: the ledger of its files (design §3). Owns the clock, the ids and the alarm; the rules are beside it. */
export class Branch extends DurableObject<Env> implements contract.BranchApi {
  readonly #sql: SqlStorage;
  readonly #ledger: Ledger;
  readonly #ulid = monotonicFactory();
  readonly #puts: PutQueue;
  #tables: boolean;
  /** The latest time that the feed was answered with: no commit is older. */
  #answeredAt = 0;
  #delivery: Promise<void> = Promise.resolve();
  #deliverAgain = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#ledger = new Ledger(this.#sql);
    this.#puts = new PutQueue((requests) => this.#putAll(requests));
    this.#tables = hasTables(this.#sql);
    if (this.#tables) ctx.storage.transactionSync(() => migrate(this.#sql));
  }

  async create(): ReturnType<contract.BranchApi["create"]> {
    this.#makeTables();
    const present = this.#ledger.current();
    if (present && !this.#awaitsRetry()) return { ok: false, reason: "already-exists" };
    const generation = present ?? this.ctx.storage.transactionSync(() => this.#begin());
    if (!(await this.#announce(generation))) return { ok: false, reason: "catalogue-unavailable" };
    return { ok: true, uid: generation.uid, createdAt: generation.created_at };
  }

  async destroy(): ReturnType<contract.BranchApi["destroy"]> {
    const generation = this.#current();
    if (!generation) return NO_BRANCH;
    if (writerOf(this.#sql)) return { ok: false, reason: "pipeline-output" };
    return (await this.#end(generation)) ? { ok: true } : { ok: false, reason: "catalogue-unavailable" };
  }

  async status(): ReturnType<contract.BranchApi["status"]> {
    const generation = this.#current();
    if (!generation) return NO_BRANCH;
    const head = headCommit(this.#sql, generation.gen);
    return {
      ok: true,
      uid: generation.uid,
      createdAt: generation.created_at,
      modifiedAt: head?.created_at ?? generation.created_at,
      head: head?.id ?? null,
      writer: writerOf(this.#sql)?.pipeline ?? null,
    };
  }

  async read({ path, commit }: contract.ReadFile): ReturnType<contract.BranchApi["read"]> {
    const at = this.#momentOf(commit === undefined ? {} : { commit });
    if ("reason" in at) return at;
    const row = fileAt(this.#sql, at.moment, path);
    if (!row || at.commit === null) return { ok: false, reason: "no-such-file" };
    const { kind, digest, size, attributes } = row;
    const body = kindName(kind) === "dir" ? EMPTY : contentBody(this.#sql, { digest, size });
    if (!body) return { ok: false, reason: "no-such-file" };
    return {
      ok: true,
      kind: kindName(kind),
      digest,
      size,
      attributes: JSON.parse(attributes),
      body,
      modifiedAt: at.modifiedAt,
      commit: at.commit,
    };
  }

  async list(request: contract.ListFiles): ReturnType<contract.BranchApi["list"]> {
    const at = this.#momentOf(request);
    if ("reason" in at) return at;
    return { ok: true, ...listPage(pathsAt(this.#sql, at.moment), request), modifiedAt: at.modifiedAt };
  }

  async content(id: ContentId): ReturnType<contract.BranchApi["content"]> {
    const body: Body | null = this.#tables ? contentBody(this.#sql, id) : null;
    return body ? { ok: true, body } : { ok: false, reason: "no-such-content" };
  }

  async openUpload({ lease }: { lease?: string }): ReturnType<contract.BranchApi["openUpload"]> {
    const generation = this.#current();
    if (!generation) return NO_BRANCH;
    if (lease === undefined && writerOf(this.#sql)) return { ok: false, reason: "pipeline-output" };
    const now = Date.now();
    const id = `${bucketName(this.#address)}.${this.#ulid(now)}`;
    const upload = openUpload(this.#sql, { id, gen: generation.gen, lease: lease ?? null, now });
    return { ok: true, upload, uid: generation.uid };
  }

  async renewUpload({ upload }: { upload: string }): ReturnType<contract.BranchApi["renewUpload"]> {
    const uid = this.#tables ? renewUpload(this.#sql, upload, Date.now()) : null;
    return uid === null ? NO_UPLOAD : { ok: true, upload, uid };
  }

  async abortUpload({ upload }: { upload: string }): Promise<void> {
    if (this.#tables) this.ctx.storage.transactionSync(() => closeUpload(this.#sql, upload));
  }

  async addContents({
    upload,
    contents,
  }: { upload: string; contents: readonly Content[] }): ReturnType<contract.BranchApi["addContents"]> {
    const gen = this.#tables ? uploadGeneration(this.#sql, upload) : null;
    if (gen === null) return NO_UPLOAD;
    const now = Date.now();
    this.ctx.storage.transactionSync(() => {
      for (const content of contents) {
        registerContent(this.#sql, { gen, content, now });
        hold(this.#sql, upload, content);
      }
    });
    return { ok: true };
  }

  async reserve({
    upload,
    contents,
  }: { upload: string; contents: readonly ContentId[] }): ReturnType<contract.BranchApi["reserve"]> {
    const gen = this.#tables ? uploadGeneration(this.#sql, upload) : null;
    if (gen === null) return NO_UPLOAD;
    return this.ctx.storage.transactionSync(() => {
      const missing = contents.filter((content) => !hasContent(this.#sql, gen, content));
      for (const content of contents) if (!missing.includes(content)) hold(this.#sql, upload, content);
      return { ok: true as const, missing };
    });
  }

  async put(request: contract.PutFile): ReturnType<contract.BranchApi["put"]> {
    return this.#tables ? await this.#puts.add(request) : NO_BRANCH;
  }

  async commit(request: contract.CommitRequest): ReturnType<contract.BranchApi["commit"]> {
    return this.#tables ? this.#committing((stamp) => this.#ledger.commit(request, stamp)) : NO_BRANCH;
  }

  async commitOutput(request: contract.OutputCommit): ReturnType<contract.BranchApi["commitOutput"]> {
    return this.#tables ? this.#committing((stamp) => this.#ledger.commitOutput(request, stamp)) : NO_BRANCH;
  }

  async subscribe({ uid, pipeline }: contract.Subscriber): ReturnType<contract.BranchApi["subscribe"]> {
    this.#makeTables();
    this.#sql.exec(
      "INSERT INTO subscribers (uid, pipeline) VALUES (?, ?) ON CONFLICT (uid) DO NOTHING",
      uid,
      pipeline,
    );
    const newest = newestGeneration(this.#sql);
    const cursor = newest ? { generation: newest.gen, seq: this.#lastSeq(newest) } : { generation: 0, seq: 0 };
    return { ok: true, cursor, exists: newest?.deleted_at === null };
  }

  async unsubscribe({ uid }: { uid: string }): Promise<void> {
    if (!this.#tables) return;
    this.ctx.storage.transactionSync(() => {
      this.#sql.exec("DELETE FROM subscribers WHERE uid = ?", uid);
      this.#sql.exec("DELETE FROM outbox WHERE kind = 'bell' AND target = ?", uid);
    });
  }

  async feed({ cursor, limit }: { cursor: contract.Cursor; limit: number }): ReturnType<contract.BranchApi["feed"]> {
    this.#answeredAt = this.#now();
    if (!this.#tables) return { events: [], now: this.#answeredAt, more: false };
    return { ...eventsAfter(this.#sql, cursor, limit), now: this.#answeredAt };
  }

  async changes(
    request: contract.CommitPosition & { after: string; limit: number },
  ): ReturnType<contract.BranchApi["changes"]> {
    return this.#tables ? changesOf(this.#sql, request) : { changes: [], next: null };
  }

  async filesAt({
    prefix,
    after,
    limit,
    ...position
  }: contract.CommitPosition & { prefix: string; after: string; limit: number }): ReturnType<
    contract.BranchApi["filesAt"]
  > {
    if (!this.#tables) return { files: [], next: null };
    const paths = pathsAt(this.#sql, this.#moment(position));
    const page = listPage(paths, { prefix, limit, ...(after === "" ? {} : { after }) });
    return { files: page.entries.filter((entry): entry is FileEntry => entry.kind !== "prefix"), next: page.next };
  }

  async fingerprint({
    path,
    ...position
  }: contract.CommitPosition & { path: string }): ReturnType<contract.BranchApi["fingerprint"]> {
    return this.#tables ? fingerprintAt(pathsAt(this.#sql, this.#moment(position)), path) : null;
  }

  async claim(request: { pipeline: string; uid: string }): ReturnType<contract.BranchApi["claim"]> {
    this.#makeTables();
    const holder = writerOf(this.#sql);
    if (holder && holder.uid !== request.uid) return { ok: false, reason: "already-claimed" };
    if (!holder && this.#ledger.current()) return { ok: false, reason: "already-exists" };
    const claimed = this.ctx.storage.transactionSync(() => ({
      generation: this.#ledger.current() ?? this.#begin(),
      epoch: takeWriter(this.#sql, request),
    }));
    if (!(await this.#announce(claimed.generation))) return { ok: false, reason: "catalogue-unavailable" };
    return { ok: true, epoch: claimed.epoch };
  }

  async release({ uid, destroy }: { uid: string; destroy: boolean }): Promise<void> {
    if (!this.#tables || !releaseWriter(this.#sql, uid)) return;
    const generation = this.#ledger.current();
    if (destroy && generation) await this.#end(generation);
  }

  override async alarm(): Promise<void> {
    await this.#deliver();
  }

  get #address(): BranchAddress {
    const address = parseBucketName(this.ctx.id.name ?? "");
    if (!address) throw new Error(`not the name of a branch: ${this.ctx.id.name}`);
    return address;
  }

  #makeTables(): void {
    if (this.#tables) return;
    this.ctx.storage.transactionSync(() => migrate(this.#sql));
    this.#tables = true;
  }

  #current(): Generation | null {
    return this.#tables ? this.#ledger.current() : null;
  }

  /** Never behind what the feed was answered with, nor behind the newest commit: clocks may move back. */
  #now(): number {
    return Math.max(Date.now(), this.#answeredAt, this.#tables ? newestTime(this.#sql) : 0);
  }

  #stamp(): Stamp {
    const now = this.#now();
    return { now, id: this.#ulid(now) };
  }

  #begin(): Generation {
    const { now, id } = this.#stamp();
    const generation = beginGeneration(this.#sql, id, now);
    post(this.#sql, { kind: "catalogue", target: "", now });
    return generation;
  }

  async #end(generation: Generation): Promise<boolean> {
    const stamp = this.#stamp();
    this.ctx.storage.transactionSync(() => {
      endGeneration(this.#sql, generation.gen, stamp);
      post(this.#sql, { kind: "catalogue", target: "", now: stamp.now });
      this.#ledger.ringAll(stamp.now);
    });
    return (await this.#deliver()).catalogue;
  }

  /** Whether telling the catalogue of the branch has failed before: then a client may try again what it began. */
  #awaitsRetry(): boolean {
    return this.#sql.exec("SELECT 1 FROM outbox WHERE kind = 'catalogue' AND tries > 0").toArray().length > 0;
  }

  /** Leaves the marker by which the object can be found, and tells the catalogue. */
  async #announce({ uid }: Generation): Promise<boolean> {
    const { repo, branch } = this.#address;
    const marker = new TextEncoder().encode(JSON.stringify({ uid }));
    try {
      await openBlobStore(this.env).put(`m/branches/${repo}/${branch}`, marker);
    } catch {
      this.#sql.exec("UPDATE outbox SET tries = tries + 1 WHERE kind = 'catalogue'");
      return false;
    }
    return (await this.#deliver()).catalogue;
  }

  #committing(
    write: (stamp: Stamp) => contract.Committed | contract.CommitRefused,
  ): contract.Committed | contract.CommitRefused {
    const stamp = this.#stamp();
    try {
      const result = this.ctx.storage.transactionSync(() => {
        const written = write(stamp);
        if (!written.ok) throw new RolledBack(written);
        if (written.commit === stamp.id) this.#ledger.ringAll(stamp.now);
        return written;
      });
      this.#deliverSoon();
      return result;
    } catch (error) {
      if (error instanceof RolledBack) return error.refusal;
      throw error;
    }
  }

  /** One transaction, a commit each: the puts that waited together. */
  #putAll(requests: readonly contract.PutFile[]): (contract.Committed | contract.CommitRefused)[] {
    const results = this.ctx.storage.transactionSync(() => {
      const stamps = requests.map(() => this.#stamp());
      const written = requests.map((request, i) => this.#ledger.put(request, stamps[i] as Stamp));
      if (written.some((result) => result.ok && result.commit !== null)) this.#ledger.ringAll(Date.now());
      return written;
    });
    this.#deliverSoon();
    return results;
  }

  #momentOf({
    commit,
    anyGeneration,
  }: { commit?: string; anyGeneration?: boolean }):
    | { moment: Moment; commit: string | null; modifiedAt: number }
    | contract.Refused<"no-such-branch" | "no-such-version"> {
    const generation = this.#current();
    if (!generation && !(anyGeneration && this.#tables)) return NO_BRANCH;
    if (commit === undefined) {
      if (!generation) return NO_BRANCH;
      const head = headCommit(this.#sql, generation.gen);
      const seq = head?.seq ?? 0;
      const modifiedAt = head?.created_at ?? generation.created_at;
      return { moment: { gen: generation.gen, seq, head: seq }, commit: head?.id ?? null, modifiedAt };
    }
    const found = commitById(this.#sql, commit);
    if (!found || !(anyGeneration || found.gen === generation?.gen)) return { ok: false, reason: "no-such-version" };
    const moment = this.#moment({ generation: found.gen, seq: found.seq });
    return { moment, commit: found.id, modifiedAt: found.created_at };
  }

  #moment({ generation, seq }: contract.CommitPosition): Moment {
    return { gen: generation, seq, head: headCommit(this.#sql, generation)?.seq ?? 0 };
  }

  /** The last event of a generation: its last commit, or its deletion behind that. */
  #lastSeq({ gen, deleted_at }: Generation): number {
    return (headCommit(this.#sql, gen)?.seq ?? 0) + (deleted_at === null ? 0 : 1);
  }

  /** Delivers what is due, one round at a time. Answers whether the catalogue is up to date afterwards. */
  async #deliver(): Promise<{ catalogue: boolean }> {
    const round = this.#delivery.then(() => this.#deliverDue());
    this.#delivery = round.catch(() => {});
    await round;
    return { catalogue: !this.#waits("catalogue") };
  }

  /** Bells that are rung while a round is on its way are left to one round behind it. */
  #deliverSoon(): void {
    if (this.#deliverAgain || !this.#waits("bell")) return;
    this.#deliverAgain = true;
    this.ctx.waitUntil(this.#delivery.then(() => {
      this.#deliverAgain = false;
      return this.#deliver();
    }));
  }

  /** What fails comes again by alarm. */
  async #deliverDue(): Promise<void> {
    const now = Date.now();
    const letters = lettersDue(this.#sql, now, DELIVERIES_AT_ONCE);
    if (letters.length === 0) return;
    // Before the first delivery: if the process dies on the way, the alarm takes over.
    await this.ctx.storage.setAlarm(now + DELIVERY_MS);
    await Promise.all(letters.map((letter) => this.#deliverOne(letter)));
    const due = nextDue(this.#sql);
    if (due === null) await this.ctx.storage.deleteAlarm();
    else await this.ctx.storage.setAlarm(due);
  }

  #waits(kind: Letter["kind"]): boolean {
    return this.#sql.exec("SELECT 1 FROM outbox WHERE kind = ? LIMIT 1", kind).toArray().length > 0;
  }

  async #deliverOne(letter: Letter): Promise<void> {
    try {
      if (letter.kind === "bell") await this.#ring(letter.target);
      else await this.#recordInCatalogue();
      delivered(this.#sql, letter);
    } catch (error) {
      console.warn(`branch ${this.ctx.id.name}: ${letter.kind} not delivered, to be tried again: ${error}`);
      undelivered(this.#sql, letter, Date.now());
    }
  }

  async #ring(uid: string): Promise<void> {
    const query = "SELECT pipeline FROM subscribers WHERE uid = ?";
    const subscriber = this.#sql.exec<{ pipeline: string }>(query, uid).toArray()[0];
    if (subscriber) await this.env.PIPELINE.getByName(subscriber.pipeline).ring({ uid });
  }

  async #recordInCatalogue(): Promise<void> {
    const generation = newestGeneration(this.#sql);
    if (!generation) return;
    await openCatalogue(this.env.DB).branches.record({
      ...this.#address,
      version: catalogueVersion(generation),
      deleted: generation.deleted_at !== null,
      createdAt: generation.created_at,
    });
  }
}
