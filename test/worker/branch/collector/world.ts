import { env, runInDurableObject } from "cloudflare:test";
import { contentName } from "../../../../protocol/content.ts";
import type { Keep } from "../../../../worker/branch/contract/settings.ts";
import { expectedEtag } from "../../s3/multipart/support.ts";
import { type Ask, answer, signed, xml } from "../../s3/support.ts";
import { type BranchStub, branchOf, DAY_MS } from "../support.ts";
import { type AnyStub, realNow } from "./effects.ts";

/** By path, the name of the content. */
export type Tree = ReadonlyMap<string, string>;

export interface Upload {
  readonly key: string;
  /** The bucket that its object goes into: the branch, or an open commit of it. */
  readonly openCommit?: string;
  /** By number, the content's name. */
  readonly parts: ReadonlyMap<number, string>;
}

/** What a branch must show. */
export interface BranchState {
  readonly tree: Tree;
  /** By name, the commit. */
  readonly tags: ReadonlyMap<string, string>;
  readonly uploads: ReadonlyMap<string, Upload>;
  /** What open commits do to paths. Null: they delete it. */
  readonly openCommits: ReadonlyMap<string, ReadonlyMap<string, string | null>>;
  /** Null: all of its history stays. */
  readonly keep: Keep | null;
  /** The commit of another branch that it was made from. */
  readonly from?: { readonly bucket: string; readonly commit: string };
}

/** By bucket; null: there is no such branch. */
export type State = ReadonlyMap<string, BranchState | null>;

/** The names of all tags that are ever made. */
export const TAGS = ["one", "two"] as const;

export const EMPTY: BranchState = {
  tree: new Map(),
  tags: new Map(),
  uploads: new Map(),
  openCommits: new Map(),
  keep: null,
};

/** A commit that was made, in the life of the branch that is the present one. */
export interface KnownCommit {
  readonly id: string;
  readonly tree: Tree;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

/** How long the commit of a tag that was deleted or moved is kept. */
const UNTAGGED_MS = DAY_MS;

/** A commit whose tag went between two looks at the clock. */
interface Untagged {
  readonly bucket: string;
  readonly commit: string;
  /** Milliseconds since 1970. */
  readonly after: number;
  readonly before: number;
}

/** What a commit wrote at a path, or that it deleted it. */
interface VersionKnown {
  readonly bucket: string;
  readonly path: string;
  readonly commit: string;
}

/** An answer that was not good. */
export class Refused extends Error {
  readonly status: number;

  constructor(line: string, status: number, text: string) {
    super(`${line}: ${status} ${text}`);
    this.status = status;
  }
}

/** A signed request to the gateway, which must be answered well. */
export async function ask(line: string, asked: Ask = {}): Promise<Response> {
  const response = await answer(await signed(line, asked), { now: realNow });
  if (!response.ok) throw new Refused(line, response.status, await response.text());
  return response;
}

/** The same; undefined if there is nothing. */
async function askFor(line: string): Promise<Response | undefined> {
  try {
    return await ask(line);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  }
}

/** The bytes that the test has made, by the names of their contents. */
const made = new Map<string, Uint8Array<ArrayBuffer>>();
/** What contents were put together from, by their names. */
const composed = new Map<string, readonly string[]>();

/** The name of a content of these bytes. */
export function nameOf(bytes: Uint8Array<ArrayBuffer>): string {
  const name = expectedEtag(bytes).slice(1, -1);
  made.set(name, bytes);
  return name;
}

export function bytesOf(name: string): Uint8Array<ArrayBuffer> {
  const bytes = made.get(name);
  if (!bytes) throw new Error(`the test has made no ${name}`);
  return bytes;
}

/** The name of several contents, one after the other. It may be kept by keeping them. */
export function joinedName(parts: readonly string[]): string {
  const pieces = parts.map(bytesOf);
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  const name = nameOf(whole);
  if (parts.length > 1) composed.set(name, parts);
  return name;
}

/** A bucket of a commit, a tag or an open commit. */
export function viewOf(view: string, bucket: string): string {
  return `${view.toLowerCase()}.${bucket}`;
}

function sameTree(a: Tree, b: Tree): boolean {
  return a.size === b.size && [...a].every(([path, name]) => b.get(path) === name);
}

function shownTree(tree: Tree | undefined): string {
  if (!tree) return "nothing";
  return JSON.stringify([...tree].map(([path, name]) => [path, name.slice(0, 8)]).sort());
}

/** The state with one branch changed. */
export function withBranch(state: State, bucket: string, change: Partial<BranchState> | null): State {
  const before = state.get(bucket) ?? EMPTY;
  return new Map(state).set(bucket, change && { ...before, ...change });
}

/** With a path set, or without it. */
export function withPath(tree: Tree, path: string, name: string | null): Tree {
  const after = new Map(tree);
  if (name === null) after.delete(path);
  else after.set(path, name);
  return after;
}

/** What an open commit would make of a tree. */
export function overlay(tree: Tree, staged: ReadonlyMap<string, string | null>): Tree {
  let after = tree;
  for (const [path, name] of staged) after = withPath(after, path, name);
  return after;
}

export interface WorldOptions {
  readonly buckets: readonly string[];
  /** The names of pipelines whose objects there are, and the buckets of their inputs and outputs. */
  readonly pipelines: readonly { readonly name: string; readonly input: string; readonly output: string }[];
}

/** What is there, beside what must be there. */
export class World {
  readonly buckets: readonly string[];
  readonly #pipelines: readonly string[];
  readonly #outputs: readonly string[];
  /** Branches that a pipeline reads: it may need any of their commits. */
  readonly #inputs: ReadonlySet<string>;
  /** Commits that nothing keeps, or kept at some time: until all is at rest they may be there or not. */
  readonly #doubtful = new Set<string>();
  /** The commits that open commits began with. */
  readonly #bases = new Map<string, string>();
  readonly #history = new Map<string, KnownCommit[]>();
  /** By bucket, the tags that were there at the last look, and when that was. */
  #tags = new Map<string, ReadonlyMap<string, string>>();
  #lookedAt = Date.now();
  /** Of each branch's present life. */
  #untagged: Untagged[] = [];
  /** Uploads and open commits that were begun and may still be there, with their branches. */
  readonly #begun = new Map<string, string>();
  /** Whether something died since the last sweep: then bytes may be left that nothing names. */
  hasDied = false;

  constructor({ buckets, pipelines }: WorldOptions) {
    this.buckets = buckets;
    this.#outputs = pipelines.map(({ output }) => output);
    this.#inputs = new Set(pipelines.map(({ input }) => input));
    this.#pipelines = pipelines.map(({ name }) => name);
  }

  /**
   * The versions of a branch that are there for sure, with what HEAD has when each is erased. None while any commit is in
   * doubt, nor of contents of which other attributes may have made another version.
   */
  versions(bucket: string, isUnclear: (name: string) => boolean): (VersionKnown & { readonly left: Tree })[] {
    const history = this.#history.get(bucket) ?? [];
    if (history.some(({ id }) => this.#doubtful.has(id)) || this.#inputs.has(bucket)) return [];
    return history.flatMap(({ id, tree }, index) => {
      const before: Tree = history[index - 1]?.tree ?? new Map();
      const paths = [...new Set([...before.keys(), ...tree.keys()])];
      return paths.flatMap((path) => {
        const [was, is] = [before.get(path), tree.get(path)];
        if (was === is || [was, is].some((name) => name !== undefined && isUnclear(name))) return [];
        const isNewest = history.slice(index).every((later) => later.tree.get(path) === is);
        const head = history.at(-1)?.tree ?? new Map();
        return [{ bucket, path, commit: id, left: isNewest ? withPath(head, path, was ?? null) : head }];
      });
    });
  }

  /** A version was erased: the commits that had it have nothing at its path. */
  erase({ bucket, path, commit }: VersionKnown): void {
    const history = this.#history.get(bucket) ?? [];
    const from = history.findIndex(({ id }) => id === commit);
    const name = history[from]?.tree.get(path);
    const length = history.slice(from).findIndex(({ tree }) => tree.get(path) !== name);
    const to = length < 0 ? history.length : from + length;
    const erased = history.map((known, index) =>
      index >= from && index < to ? { ...known, tree: withPath(known.tree, path, null) } : known,
    );
    this.#history.set(bucket, erased);
  }

  get objects(): readonly AnyStub[] {
    return [
      ...[...this.buckets, ...this.#outputs].map((bucket) => branchOf(bucket) as AnyStub),
      ...this.#pipelines.map((name) => env.PIPELINE.getByName(name) as AnyStub),
    ];
  }

  /** The commits of a branch's present life that are kept for sure, the oldest first. */
  history(bucket: string): readonly KnownCommit[] {
    return (this.#history.get(bucket) ?? []).filter(({ id }) => !this.#doubtful.has(id));
  }

  /** Takes down what commits were made for a state that holds: of each branch, one at most. */
  async learn(state: State): Promise<void> {
    this.#learnUntagged(state);
    for (const [bucket, branch] of state) {
      if (branch) await this.#learnBranch(bucket, branch);
      else this.#history.delete(bucket);
    }
    this.#doubt(state);
  }

  /** Tags that are there no more, or name another commit. */
  #learnUntagged(state: State): void {
    const [after, before] = [this.#lookedAt, Date.now()];
    this.#lookedAt = before;
    for (const [bucket, tags] of this.#tags) {
      const now = state.get(bucket)?.tags;
      const gone = now ? [...tags].filter(([name, commit]) => now.get(name) !== commit) : [];
      this.#untagged = [
        ...this.#untagged.filter((of) => now !== undefined || of.bucket !== bucket),
        ...gone.map(([, commit]) => ({ bucket, commit, after, before })),
      ];
    }
    this.#tags = new Map([...state].flatMap(([bucket, branch]) => (branch ? [[bucket, branch.tags]] : [])));
  }

  /** The commits that are kept since their tags went a short time ago: for sure, or at most. */
  #untaggedIn(bucket: string, least: "sure" | "at most"): string[] {
    return this.#untagged
      .filter((of) => of.bucket === bucket)
      .filter(({ after, before }) => Date.now() < (least === "sure" ? after : before) + UNTAGGED_MS)
      .map(({ commit }) => commit);
  }

  #inDoubtByTag(bucket: string): KnownCommit[] {
    const may = new Set(this.#untaggedIn(bucket, "at most"));
    return (this.#history.get(bucket) ?? []).filter(({ id }) => may.has(id) && this.#doubtful.has(id));
  }

  async #learnBranch(bucket: string, { tree, uploads, openCommits }: BranchState): Promise<void> {
    for (const [id, upload] of uploads) this.#begun.set(uploadTarget(bucket, { id, upload }), bucket);
    for (const id of openCommits.keys()) this.#begun.set(`/${viewOf(id, bucket)}`, bucket);
    const log = await branchOf(bucket).history.list({ limit: 1000 });
    if (!log.ok) throw new Error(`the log of ${bucket} is ${log.reason}`);
    const known = this.#history.get(bucket) ?? [];
    const newest = known.at(-1);
    const fresh = log.commits.filter(({ id }) => id > (newest?.id ?? ""));
    if (fresh.length > 1) throw new Error(`${bucket} has ${fresh.length} new commits`);
    if (fresh.length === 0 && !sameTree(newest?.tree ?? new Map(), tree)) {
      throw new Error(`${bucket} has no new commit`);
    }
    const history = [...known, ...fresh.map(({ id, createdAt }) => ({ id, createdAt, tree }))];
    this.#history.set(bucket, history);
    const head = history.at(-1);
    for (const id of openCommits.keys()) if (head && !this.#bases.has(id)) this.#bases.set(id, head.id);
  }

  /** What nothing keeps now may be gone from now on, whatever is said later. */
  #doubt(state: State): void {
    for (const [bucket, branch] of state) {
      if (!branch) continue;
      const kept = this.#keptIn(state, { bucket, branch });
      for (const { id } of this.#history.get(bucket) ?? []) if (!kept.has(id)) this.#doubtful.add(id);
    }
  }

  /**
   * The commits that something keeps for sure: the newest, those that were replaced lately, and those that have a name or
   * had one.
   */
  #keptIn(state: State, { bucket, branch }: { bucket: string; branch: BranchState }): Set<string> {
    const history = this.#history.get(bucket) ?? [];
    const { keep, tags, openCommits } = branch;
    const since = Date.now() - (keep?.days ?? 0) * DAY_MS;
    const newest = keep?.commits ?? 1;
    const inRange = history.filter((_, index) => {
      const replacedAt = history[index + 1]?.createdAt;
      return !keep || index >= history.length - newest || (replacedAt !== undefined && replacedAt > since);
    });
    const forks = [...state.values()].flatMap((other) =>
      other?.from?.bucket === bucket ? [other.from] : [],
    );
    return new Set([
      ...inRange.map(({ id }) => id),
      ...tags.values(),
      ...this.#untaggedIn(bucket, "sure"),
      ...[...openCommits.keys()].flatMap((id) => this.#bases.get(id) ?? []),
      ...forks.map(({ commit }) => commit),
    ]);
  }

  /** All is at rest: what nothing keeps must be gone, and is forgotten here. Returns what is still there. */
  async forgetGone(state: State): Promise<string[]> {
    this.#doubt(state);
    const found: string[] = [];
    for (const [bucket, branch] of state) {
      if (!branch) continue;
      const kept = this.#keptIn(state, { bucket, branch });
      const mayStay = new Set([...kept, ...this.#untaggedIn(bucket, "at most")]);
      const left: KnownCommit[] = [];
      for (const commit of this.#history.get(bucket) ?? []) {
        const { id } = commit;
        const isDoubtful = this.#doubtful.has(id);
        const isThere = !isDoubtful || (await askFor(`GET /${viewOf(id, bucket)}`)) !== undefined;
        if (isThere) left.push(commit);
        if (isThere && isDoubtful && !mayStay.has(id) && !this.#inputs.has(bucket)) {
          found.push(`commit ${id} of ${bucket} is kept`);
        }
        // It was held all the time, and whoever asks for it now has it.
        if (isThere && kept.has(id)) this.#doubtful.delete(id);
      }
      this.#history.set(bucket, left);
    }
    return found;
  }

  /** Where what is there differs from what must be: empty if it does not. */
  async differences(state: State): Promise<string[]> {
    const found: string[] = [];
    for (const [bucket, branch] of state) {
      if (branch) found.push(...(await this.#branchDifferences(bucket, branch)));
      else if (await askFor(`GET /${bucket}`)) found.push(`${bucket} is there`);
    }
    return found;
  }

  async #branchDifferences(bucket: string, branch: BranchState): Promise<string[]> {
    const found = await this.#treeDifferences(bucket, branch.tree);
    for (const [openCommit, staged] of branch.openCommits) {
      const shown = overlay(branch.tree, staged);
      found.push(...(await this.#treeDifferences(viewOf(openCommit, bucket), shown)));
    }
    for (const [id, upload] of branch.uploads) found.push(...(await partDifferences(bucket, id, upload)));
    for (const name of TAGS) {
      const tag = await branchOf(bucket).tags.find({ name });
      const commit = tag.ok ? tag.commit : undefined;
      if (commit !== branch.tags.get(name)) found.push(`the tag ${name} of ${bucket} names ${commit}`);
    }
    const settings = await branchOf(bucket).settings.read();
    const keep = settings.ok && JSON.stringify(settings.keep);
    if (keep !== JSON.stringify(branch.keep)) found.push(`${bucket} keeps ${keep}`);
    return [...found, ...(await this.#notEnded(bucket, branch))];
  }

  /** Uploads and open commits that have ended, and are still there. */
  async #notEnded(bucket: string, branch: BranchState): Promise<string[]> {
    const standing = new Set([
      ...[...branch.uploads].map(([id, upload]) => uploadTarget(bucket, { id, upload })),
      ...[...branch.openCommits.keys()].map((id) => `/${viewOf(id, bucket)}`),
    ]);
    const found: string[] = [];
    for (const [target, of] of this.#begun) {
      if (of !== bucket || standing.has(target)) continue;
      if (await askFor(`GET ${target}`)) found.push(`${target} is still there`);
      else this.#begun.delete(target);
    }
    return found;
  }

  /** The same of commits and tags. `of`: which commits. */
  async pastDifferences(
    state: State,
    of: (history: readonly KnownCommit[]) => readonly KnownCommit[],
  ): Promise<string[]> {
    const found: string[] = [];
    for (const [bucket, branch] of state) {
      if (!branch) continue;
      const history = this.history(bucket);
      for (const { id, tree } of of(history)) {
        found.push(...(await this.#treeDifferences(viewOf(id, bucket), tree)));
      }
      for (const [tag, id] of branch.tags) {
        const tree = history.find((commit) => commit.id === id)?.tree;
        if (tree) found.push(...(await this.#treeDifferences(viewOf(tag, bucket), tree)));
      }
    }
    return found;
  }

  /** Files of output branches whose bytes can't be read. */
  async outputDifferences(): Promise<string[]> {
    const found: string[] = [];
    for (const bucket of this.#outputs) {
      for (const [path, name] of (await listing(bucket)) ?? []) {
        const bytes = await read(bucket, path);
        if (!bytes || expectedEtag(bytes) !== `"${name}"`) found.push(`${bucket}/${path} can't be read`);
      }
    }
    return found;
  }

  async #treeDifferences(bucket: string, tree: Tree): Promise<string[]> {
    const listed = await listing(bucket);
    if (!listed || !sameTree(listed, tree)) {
      return [`${bucket} lists ${shownTree(listed)}, and not ${shownTree(tree)}`];
    }
    const found: string[] = [];
    for (const [path, name] of tree) {
      const bytes = await read(bucket, path);
      if (!bytes || !equal(bytes, bytesOf(name)))
        found.push(`${bucket}/${path} has not the bytes of ${name}`);
    }
    return found;
  }

  /**
   * What is in the blob store and in the rows, held against what must be: to be called when all is at rest. What a
   * content was put together from stays with it.
   */
  async leftOver(state: State): Promise<string[]> {
    const found: string[] = [];
    const [named, uids] = [new Set<string>(), new Set<string>()];
    for (const bucket of [...this.buckets, ...this.#outputs]) {
      const { contents, faults, lives } = await rowsOf(branchOf(bucket));
      for (const uid of lives) uids.add(uid);
      for (const { body } of contents) for (const blob of await blobsIn(body)) named.add(blob);
      for (const fault of faults) found.push(`${bucket}: ${fault}`);
      if (this.#outputs.includes(bucket)) continue;
      const needed = neededBy(state.get(bucket) ?? null, {
        commits: this.history(bucket),
        others: this.#inDoubtByTag(bucket),
      });
      const isInput = this.#inputs.has(bucket);
      found.push(
        ...contentDifferences(contents, { ...needed, isInput }).map((fault) => `${bucket} ${fault}`),
      );
    }
    const stored = await storedBlobs(uids);
    const missing = [...named].filter((blob) => !stored.has(blob));
    const orphans = this.hasDied ? [] : [...stored].filter((blob) => !named.has(blob));
    found.push(...missing.map((blob) => `${blob} is named and gone`));
    found.push(...orphans.map((blob) => `${blob} is left, and nothing names it`));
    return found;
  }

  /** Whether anything goes on by itself that was begun: a large commit, a revert, a fork. */
  async isAtWork(): Promise<boolean> {
    for (const bucket of this.buckets) {
      const n = await runInDurableObject(branchOf(bucket), (_, { storage: { sql } }) => {
        if (sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'forks'").toArray().length === 0) return 0;
        return sql.exec(AT_WORK).one().n;
      });
      if (n !== 0) return true;
    }
    return false;
  }

  /** What rows are left of branches that were all deleted. */
  async remains(): Promise<string[]> {
    const found: string[] = [];
    for (const bucket of this.buckets) {
      const counts = await runInDurableObject(branchOf(bucket), (_, { storage: { sql } }) => {
        if (sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'files'").toArray().length === 0) return [];
        return OF_BRANCHES.map((table) => [table, sql.exec(`SELECT count(*) AS n FROM ${table}`).one().n]);
      });
      for (const [table, n] of counts) if (n !== 0) found.push(`${bucket} has ${n} rows of ${table}`);
    }
    return found;
  }
}

/** Forks of state 0 and 1 are being made. */
const AT_WORK = `
  SELECT (SELECT count(*) FROM applying) + (SELECT count(*) FROM reverting)
    + (SELECT count(*) FROM forks WHERE state < 2) AS n`;

/** What branches have, by tables. That a fork let go is remembered for a while. */
const OF_BRANCHES = [
  "files",
  "contents",
  "blobs",
  "pending_deletions",
  "holds",
  "uploads",
  "parts",
  "ended",
  "staged",
  "open_commits",
  "tags",
  "roots WHERE goneAt IS NULL",
];

interface Needed {
  readonly required: ReadonlySet<string>;
  readonly allowed: ReadonlySet<string>;
}

function contentDifferences(
  contents: readonly ContentRow[],
  { required, allowed, isInput }: Needed & { isInput: boolean },
): string[] {
  const there = new Set(contents.filter(({ lives }) => lives).map(({ name }) => name));
  return [
    ...[...required].filter((name) => !there.has(name)).map((name) => `lacks ${name}`),
    ...[...there].filter((name) => !isInput && !allowed.has(name)).map((name) => `still has ${name}`),
  ];
}

/** `others`: commits that may be kept. */
function neededBy(
  branch: BranchState | null,
  { commits, others }: { commits: readonly KnownCommit[]; others: readonly KnownCommit[] },
): Needed {
  const held = branch
    ? [
        ...branch.tree.values(),
        ...[...branch.openCommits.values()].flatMap((staged) => [...staged.values()]),
        ...[...branch.uploads.values()].flatMap(({ parts }) => [...parts.values()]),
        ...commits.flatMap(({ tree }) => [...tree.values()]),
      ]
    : [];
  const required = new Set(held.filter((name) => name !== null));
  const allowed = new Set(
    [...required, ...others.flatMap(({ tree }) => [...tree.values()])].flatMap((name) => [
      name,
      ...(composed.get(name) ?? []),
    ]),
  );
  return { required, allowed };
}

/** The address of an upload, with its key. */
export function uploadTarget(bucket: string, { id, upload }: { id: string; upload: Upload }): string {
  const { key, openCommit } = upload;
  return `/${openCommit === undefined ? bucket : viewOf(openCommit, bucket)}/${key}?uploadId=${id}`;
}

async function partDifferences(bucket: string, id: string, upload: Upload): Promise<string[]> {
  const { parts } = upload;
  const target = uploadTarget(bucket, { id, upload });
  const response = await askFor(`GET ${target}`);
  if (!response) return [`${target} is gone`];
  const { ListPartsResult: listed } = await xml(response);
  const entries: { PartNumber: string; ETag: string }[] = listed.Part ?? [];
  const shown = new Map(entries.map(({ PartNumber, ETag }) => [PartNumber, ETag.replaceAll('"', "")]));
  const expected = new Map([...parts].map(([number, name]) => [String(number), name]));
  if (sameTree(shown, expected)) return [];
  return [`${target} has parts ${shownTree(shown)}, and not ${shownTree(expected)}`];
}

/** Paths and contents of a bucket; undefined if it is not there. */
async function listing(bucket: string): Promise<Tree | undefined> {
  const response = await askFor(`GET /${bucket}?list-type=2`);
  if (!response) return undefined;
  const { ListBucketResult: listed } = await xml(response);
  const entries: { Key: string; ETag: string }[] = listed.Contents ?? [];
  return new Map(entries.map(({ Key, ETag }) => [Key, ETag.replaceAll('"', "")]));
}

async function read(bucket: string, path: string): Promise<Uint8Array | undefined> {
  const response = await askFor(`GET /${bucket}/${path}`);
  return response && new Uint8Array(await response.arrayBuffer());
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

/** The names of all blobs in the store that these lives of branches have brought. */
async function storedBlobs(uids: ReadonlySet<string>): Promise<Set<string>> {
  const names = new Set<string>();
  let cursor: string | undefined;
  do {
    const page = await env.BLOBS.list({ prefix: "b/", ...(cursor !== undefined && { cursor }) });
    for (const { key } of page.objects) if (uids.has(key.split("/")[2] ?? "")) names.add(key);
    cursor = page.truncated ? page.cursor : undefined;
  } while (cursor !== undefined);
  return names;
}

interface ContentRow {
  readonly name: string;
  /** JSON of what lists the blobs; null if the bytes are in the row. */
  readonly body: string | null;
  /** It belongs to the life of the branch that is the present one. */
  readonly lives: boolean;
}

/** What the tables of a branch say of contents, and where they are wrong about it. */
async function rowsOf(
  branch: BranchStub,
): Promise<{ contents: ContentRow[]; faults: string[]; lives: string[] }> {
  return await runInDurableObject(branch, (_, { storage: { sql } }) => {
    const tables = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'contents'").toArray();
    if (tables.length === 0) return { contents: [], faults: [], lives: [] };
    const contents = sql
      .exec(
        `SELECT lower(hex(digest)) AS digest, size, iif(kind = 0, NULL, body) AS body, EXISTS (
           SELECT 1 FROM generations WHERE generations.gen = contents.gen AND deletedAt IS NULL) AS lives
         FROM contents WHERE refs > 0`,
      )
      .toArray()
      .map(({ digest, size, body, lives }) => ({
        name: contentName({ digest: String(digest), size: Number(size) }),
        body: body === null ? null : String(body),
        lives: lives === 1,
      }));
    const faults = FAULTS.flatMap(([fault, query]) => {
      const { n } = sql.exec(`SELECT count(*) AS n FROM (${query})`).one();
      return n === 0 ? [] : [`${n} ${fault}`];
    });
    const lives = sql.exec("SELECT uid FROM generations").toArray();
    return { contents, faults, lives: lives.map(({ uid }) => String(uid)) };
  });
}

/** What must never be in the tables while all is at rest. */
const FAULTS: readonly (readonly [fault: string, query: string])[] = [
  ["dead contents", "SELECT 1 FROM contents WHERE refs = 0"],
  ["condemned blobs", "SELECT 1 FROM pending_deletions"],
  ["blobs that are condemned and named", "SELECT 1 FROM pending_deletions JOIN blobs ON name = blob"],
  [
    "blobs that are condemned and the whole of a content",
    `SELECT 1 FROM pending_deletions JOIN contents ON kind = 1 AND keeps IS NULL
       AND instr(CAST(body AS TEXT), '"' || blob || '"') > 0`,
  ],
  ["blobs without references", "SELECT 1 FROM blobs WHERE refs <= 0"],
  [
    "files without content",
    `SELECT 1 FROM files WHERE kind = 0 AND NOT EXISTS (
       SELECT 1 FROM contents WHERE contents.digest = files.digest AND contents.size = files.size
         AND contents.gen = files.gen)`,
  ],
];

/** The blobs that a stored body names, with the pages of a manifest. */
async function blobsIn(body: string | null): Promise<string[]> {
  if (body === null) return [];
  const stored: { blob: string }[] | { blob: string } = JSON.parse(body);
  if (Array.isArray(stored)) return stored.map(({ blob }) => blob);
  const pages = await listedIn(stored.blob);
  const chunks = await Promise.all(pages.map((page) => listedIn(page)));
  return [stored.blob, ...pages, ...chunks.flat()];
}

async function listedIn(blob: string): Promise<string[]> {
  const object = await env.BLOBS.get(blob);
  if (!object) return [];
  return (await object.json<{ blob: string }[]>()).map((listed) => listed.blob);
}
