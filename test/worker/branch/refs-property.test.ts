import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import type { CompleteMultipart } from "../../../worker/branch/contract/multipart.ts";
import { sampled } from "../../support/suite.ts";
import {
  type BranchStub,
  begin,
  chunked,
  drained,
  freshBranch,
  ledgerOf,
  randomNumbers,
  startOpenCommit,
} from "./support.ts";

const STEPS = 350;
const PATHS = ["a", "b", "c"];
const TEXTS = Array.from({ length: 12 }, (_, n) => `content ${n}`);

/** How a content is stored: the blobs that are its own, and the contents that it keeps. */
interface Form {
  readonly id: ContentId;
  readonly own: readonly string[];
  readonly keeps: readonly ContentId[];
}

/**
 * What must be there, with nothing clever: whatever a file ever was or a part of an open upload is, and what that
 * keeps. All else that was ever brought must be condemned.
 */
class Model {
  readonly versions: ContentId[] = [];
  readonly files = new Map<string, ContentId>();
  readonly uploads = new Map<string, Map<number, ContentId>>();
  /** What open commits do to paths. Null: they delete it. */
  readonly openCommits = new Map<string, Map<string, ContentId | null>>();
  readonly #brought = new Set<string>();
  #forms = new Map<string, Form>();

  /** The first form of a content that is there stays. */
  bring(content: Content): void {
    const own = ownBlobs(content);
    for (const blob of own) this.#brought.add(blob);
    const { digest, size } = content;
    const name = contentName(content);
    if (!this.#forms.has(name)) {
      this.#forms.set(name, { id: { digest, size }, own, keeps: content.keeps ?? [] });
    }
  }

  write(path: string, { digest, size }: ContentId): void {
    this.files.set(path, { digest, size });
    this.versions.push({ digest, size });
  }

  finish(openCommit: string): void {
    for (const [path, id] of this.openCommits.get(openCommit) ?? []) {
      const before = this.files.get(path);
      if (!id) this.files.delete(path);
      else if (before?.digest !== id.digest || before.size !== id.size) this.write(path, id);
    }
    this.openCommits.delete(openCommit);
  }

  /** Forgets what nothing needs; answers the blobs that must be there and those that must be condemned. */
  settle(): { live: string[]; condemned: string[] } {
    const needed = new Map<string, Form>();
    const held = [...this.uploads.values(), ...this.openCommits.values()].flatMap((of) => [...of.values()]);
    const todo = [...this.versions, ...held.filter((id) => id !== null)];
    for (let id = todo.pop(); id; id = todo.pop()) {
      const form = this.#forms.get(contentName(id));
      if (!form || needed.has(contentName(id))) continue;
      needed.set(contentName(id), form);
      todo.push(...form.keeps);
    }
    this.#forms = needed;
    const live = new Set([...needed.values()].flatMap(({ own }) => own));
    return { live: [...live].sort(), condemned: [...this.#brought].filter((blob) => !live.has(blob)).sort() };
  }

  /** All contents that are there. */
  get contents(): ContentId[] {
    return [...this.#forms.values()].map(({ id }) => id);
  }
}

function ownBlobs({ body, keeps }: Content): string[] {
  if (body.kind === "manifest") return [body.blob];
  return body.kind === "chunks" && !keeps ? body.chunks.map(({ blob }) => blob) : [];
}

/** Does random things to a branch and a model alike. */
class Play {
  readonly #branch: BranchStub;
  /** What the blob reaper has deleted. */
  readonly #deleted = new Set<string>();
  /** Completions whose parts were read, and that are still to be asked for. */
  readonly #late: CompleteMultipart[] = [];
  readonly #random: () => number;
  readonly #model = new Model();
  #blobs = 0;

  constructor(branch: BranchStub, seed: number) {
    this.#branch = branch;
    this.#random = randomNumbers(seed);
    vi.spyOn(R2BlobStore.prototype, "delete").mockImplementation(async (names) => {
      for (const name of names) this.#deleted.add(name);
    });
  }

  async step(): Promise<void> {
    const steps = [
      () => this.#putFile(),
      () => this.#begin(),
      () => this.#addPart(),
      () => this.#addPart(),
      () => this.#copyPart(),
      () => this.#partComesAgain(),
      () => this.#complete(),
      () => this.#abort(),
      () => this.#copyFile(),
      () => this.#deleteFile(),
      () => this.#readLate(),
      () => this.#completeLate(),
      () => this.#collect(),
      () => this.#startOpenCommit(),
      () => this.#stageFile(),
      () => this.#stageCopy(),
      () => this.#stageDeletion(),
      () => this.#finishOpenCommit(),
      () => this.#abortOpenCommit(),
    ];
    await this.#pick(steps)?.();
    const { live, condemned } = this.#model.settle();
    // Some of it goes behind the answer, which may take a moment on a busy machine.
    const told = async () => {
      const ledger = await ledgerOf(this.#branch);
      const gone = [...new Set([...ledger.condemned, ...this.#deleted])].sort();
      return { live: ledger.blobs.map(([name]) => name), condemned: gone };
    };
    await expect.poll(told).toEqual({ live, condemned });
  }

  /** Every content that is needed says where its bytes are, and none of it is condemned. */
  async check(): Promise<void> {
    const { condemned } = this.#model.settle();
    for (const id of this.#model.contents) {
      const answer = await this.#branch.files.content(id);
      if (!answer.ok) throw new Error(`${contentName(id)}: ${answer.reason}`);
      const { body } = answer;
      const blobs = body.kind === "chunks" ? body.chunks.map(({ blob }) => blob) : [];
      expect(blobs.filter((blob) => condemned.includes(blob))).toEqual([]);
    }
  }

  async #putFile(): Promise<void> {
    const opened = await this.#branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const [path, content] = [this.#pick(PATHS) ?? "", this.#content()];
    this.#model.bring(content);
    const { upload } = opened;
    expect(await this.#branch.files.put({ path, content, attributes: {}, upload })).toMatchObject({
      ok: true,
    });
    this.#model.write(path, content);
  }

  async #begin(): Promise<void> {
    const upload = await begin(this.#branch, { path: this.#pick(PATHS) ?? "" });
    this.#model.uploads.set(upload, new Map());
  }

  async #addPart(content = this.#content()): Promise<void> {
    const upload = this.#anyUpload();
    if (upload) await this.#replacePart(upload, 1 + Math.floor(this.#random() * 4), content);
  }

  async #replacePart(upload: string, number: number, content: Content): Promise<void> {
    this.#model.bring(content);
    expect(await this.#branch.multipart.addPart({ upload, number, content })).toEqual({ ok: true });
    const { digest, size } = content;
    this.#model.uploads.get(upload)?.set(number, { digest, size });
    this.#model.settle();
  }

  /** A part is replaced, and then uploaded as it was: if nothing else kept its content, that has other blobs now. */
  async #partComesAgain(): Promise<void> {
    const upload = this.#anyUpload();
    const part = this.#pick([...(this.#model.uploads.get(upload ?? "") ?? [])]);
    const text = TEXTS.find((one) => chunked(one, []).digest === part?.[1].digest);
    if (!upload || !part || text === undefined) return;
    for (const one of [`other ${this.#blobs}`, text]) {
      await this.#replacePart(upload, part[0], chunked(one, [this.#blob()]));
    }
  }

  /** A part of bytes that other contents have: of files, of parts, of what was itself put together. */
  async #copyPart(): Promise<void> {
    const source = this.#pick(this.#model.contents);
    if (source) await this.#addPart(await this.#whole([source]));
  }

  async #complete(): Promise<void> {
    const upload = this.#anyUpload();
    const all = [...(this.#model.uploads.get(upload ?? "") ?? [])];
    const named = all.filter(() => this.#random() < 0.7);
    if (!upload || named.length === 0) return;
    const content = await this.#whole(named.map(([, id]) => id));
    const parts = named.map(([number, id]) => ({ number, ...id }));
    const request = { upload, parts, content, attributes: {} };
    const first = await this.#branch.multipart.complete(request);
    if (!first.ok) throw new Error(first.reason);
    this.#model.bring(content);
    this.#model.write(first.path, content);
    this.#model.uploads.delete(upload);
    if (this.#random() < 0.3) expect(await this.#branch.multipart.complete(request)).toEqual(first);
  }

  async #abort(): Promise<void> {
    const upload = this.#anyUpload();
    if (!upload) return;
    expect(await this.#branch.multipart.abort({ upload })).toEqual({ ok: true });
    this.#model.uploads.delete(upload);
  }

  async #copyFile(): Promise<void> {
    const [source, path] = [this.#pick([...this.#model.files.values()]), this.#pick(PATHS) ?? ""];
    if (!source) return;
    expect(await this.#branch.files.commit({ operations: [{ put: path, ...source }] })).toMatchObject({
      ok: true,
    });
    this.#model.write(path, source);
  }

  async #deleteFile(): Promise<void> {
    const path = this.#pick(PATHS) ?? "";
    await this.#branch.files.commit({ operations: [{ delete: path }] });
    this.#model.files.delete(path);
  }

  async #startOpenCommit(): Promise<void> {
    this.#model.openCommits.set(await startOpenCommit(this.#branch), new Map());
  }

  async #stageFile(): Promise<void> {
    const openCommit = this.#anyOpenCommit();
    const opened = await this.#branch.uploads.open({});
    if (!openCommit || !opened.ok) return;
    const [path, content] = [this.#pick(PATHS) ?? "", this.#content()];
    this.#model.bring(content);
    const { upload } = opened;
    const put = { openCommit, path, content, attributes: {}, upload };
    expect(await this.#branch.files.put(put)).toMatchObject({ ok: true, commit: null });
    const { digest, size } = content;
    this.#model.openCommits.get(openCommit)?.set(path, { digest, size });
  }

  async #stageCopy(): Promise<void> {
    const openCommit = this.#anyOpenCommit();
    const [source, path] = [this.#pick(this.#model.contents), this.#pick(PATHS) ?? ""];
    if (!openCommit || !source) return;
    const operations = [{ put: path, ...source }];
    expect(await this.#branch.files.commit({ openCommit, operations })).toMatchObject({
      ok: true,
      commit: null,
    });
    this.#model.openCommits.get(openCommit)?.set(path, source);
  }

  async #stageDeletion(): Promise<void> {
    const [openCommit, path] = [this.#anyOpenCommit(), this.#pick(PATHS) ?? ""];
    if (!openCommit) return;
    await this.#branch.files.commit({ openCommit, operations: [{ delete: path }] });
    this.#model.openCommits.get(openCommit)?.set(path, null);
  }

  async #finishOpenCommit(): Promise<void> {
    const openCommit = this.#anyOpenCommit();
    if (!openCommit) return;
    expect(await this.#branch.openCommits.finish({ openCommit })).toMatchObject({ state: "finished" });
    this.#model.finish(openCommit);
  }

  async #abortOpenCommit(): Promise<void> {
    const openCommit = this.#anyOpenCommit();
    if (!openCommit) return;
    expect(await this.#branch.openCommits.abort({ openCommit })).toEqual({ ok: true });
    this.#model.openCommits.delete(openCommit);
    await drained(this.#branch);
  }

  /** Reads what parts are made of, as a completion does that takes its time. */
  async #readLate(): Promise<void> {
    const upload = this.#anyUpload();
    const named = [...(this.#model.uploads.get(upload ?? "") ?? [])];
    if (!upload || named.length === 0) return;
    const read = await this.#branch.multipart.bodies({ upload, numbers: named.map(([number]) => number) });
    if (!read.ok) throw new Error(read.reason);
    const chunks = read.parts.flatMap(({ body }) => (body.kind === "chunks" ? body.chunks : []));
    const { digest, size } = chunked(named.map(([, id]) => contentName(id)).join(), []);
    const keeps = read.parts.map(({ number: _, body: __, ...kept }) => kept);
    const content = { digest, size, body: { kind: "chunks", chunks }, keeps } as const;
    const parts = read.parts.map(({ number, digest, size }) => ({ number, digest, size }));
    this.#late.push({ upload, parts, content, attributes: {} });
  }

  /** Names what was read, unless it has changed meanwhile: also a part that went and came again in other blobs has. */
  async #completeLate(): Promise<void> {
    const request = this.#late.shift();
    if (!request) return;
    const answer = await this.#branch.multipart.complete(request);
    // Another completion of the same parts may have been made: then this is its answer.
    if (!answer.ok || !this.#model.uploads.has(request.upload)) return;
    this.#model.bring(request.content);
    this.#model.write(answer.path, request.content);
    this.#model.uploads.delete(request.upload);
  }

  /** Time passes for all that is condemned so far. */
  async #collect(): Promise<void> {
    await runInDurableObject(this.#branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE pending_deletions SET due = 0");
    });
    await runDurableObjectAlarm(this.#branch);
    expect(await ledgerOf(this.#branch)).toMatchObject({ condemned: [] });
  }

  /** One of a few contents, in blobs that nobody else writes. */
  #content(): Content {
    const text = TEXTS[Math.floor(this.#random() * TEXTS.length)] ?? "";
    return chunked(text, this.#random() < 0.5 ? [this.#blob()] : [this.#blob(), this.#blob()]);
  }

  /** These contents together, in the form that the branch has them in. */
  async #whole(ids: readonly ContentId[]): Promise<Content> {
    const chunks = [];
    for (const id of ids) {
      const answer = await this.#branch.files.content(id);
      if (!answer.ok) throw new Error(answer.reason);
      if (answer.body.kind === "chunks") chunks.push(...answer.body.chunks);
    }
    const { digest, size } = chunked(ids.map(contentName).join(), []);
    const body =
      this.#random() < 0.3
        ? ({ kind: "manifest", blob: this.#blob(), length: 1 } as const)
        : ({ kind: "chunks", chunks } as const);
    return { digest, size, body, keeps: ids };
  }

  #blob(): string {
    this.#blobs += 1;
    return `b/${this.#blobs}`;
  }

  #anyUpload(): string | undefined {
    return this.#pick([...this.#model.uploads.keys()]);
  }

  #anyOpenCommit(): string | undefined {
    return this.#pick([...this.#model.openCommits.keys()]);
  }

  #pick<T>(from: readonly T[]): T | undefined {
    return from[Math.floor(this.#random() * from.length)];
  }
}

afterEach(() => {
  vi.restoreAllMocks();
});

for (const [seed, options] of sampled([1, 2, 3, 4], { every: 4 })) {
  describe(
    `random uploads, parts, completions, copies, overwrites, deletions and open commits ${seed}`,
    options,
    () => {
      test("condemn and delete what nothing needs, all of it, and nothing else", async () => {
        const play = new Play(await freshBranch(), seed);
        for (let step = 0; step < STEPS; step++) {
          await play.step();
          if (step % 25 === 0) await play.check();
        }
        await play.check();
      }, 120_000);
    },
  );
}
