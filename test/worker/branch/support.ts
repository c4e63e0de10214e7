import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { createHash } from "node:crypto";
import { ulid } from "ulid";
import { expect } from "vitest";
import { chunkBlobName, newWrite } from "../../../worker/blobs/blob-name.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import type { Branch } from "../../../worker/branch/branch.ts";
import type { Refused } from "../../../worker/branch/contract/answers.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type {
  CommitRefused,
  Committed,
  ListEntry,
  ListFiles,
} from "../../../worker/branch/contract/files.ts";
import type { CreateMultipart } from "../../../worker/branch/contract/multipart.ts";
import type { OpenCommitEnd } from "../../../worker/branch/contract/open-commits.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import { HELD } from "./held.ts";

/** Bucket names of this test file that no other test of it uses. */
let names = 0;
export function freshBucket(): string {
  names++;
  return `master.repo-${names}`;
}

const FACETS: Record<keyof BranchApi, true> = {
  lifecycle: true,
  settings: true,
  files: true,
  uploads: true,
  multipart: true,
  openCommits: true,
  history: true,
  tags: true,
  erasures: true,
  forks: true,
  feed: true,
  output: true,
  exports: true,
  imports: true,
  admin: true,
};

/** A branch as its callers have it, which is also what the tools of tests take for the object. */
export function branchOf(bucket: string) {
  const stub = env.BRANCH.getByName(bucket);
  const client = clientOf<BranchApi>(stub);
  const names = Object.keys(FACETS) as (keyof BranchApi)[];
  return Object.assign(
    stub,
    Object.fromEntries(names.map((name) => [name, client[name]])) as unknown as BranchApi,
  );
}
export type BranchStub = ReturnType<typeof branchOf>;

/** Does something where the object is: its calls are made there, too. */
export function inObject<R>(
  branch: BranchStub,
  work: (calls: BranchApi, state: DurableObjectState) => R | Promise<R>,
): Promise<R> {
  return runInDurableObject(branch, (object: Branch, state) => work(clientOf<BranchApi>(object), state));
}

/** A branch that was created. */
export async function freshBranch(bucket = freshBucket()): Promise<BranchStub> {
  const branch = branchOf(bucket);
  const made = await branch.lifecycle.create();
  if (!made.ok) throw new Error(`create answered ${made.reason}`);
  return branch;
}

/** A small content, kept in the row. */
export function inline(text: string): Content {
  const bytes = new TextEncoder().encode(text);
  return { ...idOf(bytes), body: { kind: "inline", bytes } };
}

/** The name of a fresh blob of a branch, for a text. */
export async function blobNameIn(branch: BranchStub, text: string): Promise<string> {
  const uid = await runInDurableObject(branch, (_, { storage: { sql } }) =>
    String(sql.exec("SELECT uid FROM generations ORDER BY gen DESC LIMIT 1").one().uid),
  );
  const { digest, size } = idOf(new TextEncoder().encode(text));
  return chunkBlobName({ digest, size }, { uid, upload: `master.data.${ulid()}`, write: newWrite() });
}

/** A content whose bytes are said to be in these blobs. */
export function chunked(text: string, blobs: readonly string[]): Content {
  const bytes = new TextEncoder().encode(text);
  const chunks = blobs.map((blob) => ({ blob, offset: 0, length: bytes.length, leaves: "" }));
  return { ...idOf(bytes), body: { kind: "chunks", chunks } };
}

function idOf(bytes: Uint8Array): { digest: string; size: number } {
  return { digest: createHash("sha256").update(bytes).digest("hex"), size: bytes.length };
}

export async function put(branch: BranchStub, path: string, text = path): Promise<string | null> {
  return committed(await branch.files.put({ path, content: inline(text), attributes: {} }));
}

/** Returns the commit; fails the test if it was refused. */
export function committed(answer: Committed | CommitRefused | Refused<"applying">): string | null {
  if (!answer.ok) throw new Error(`refused: ${JSON.stringify(answer)}`);
  return answer.commit;
}

/** Uploads contents and commits operations on them. */
export async function commitFiles(
  branch: BranchStub,
  { puts = {}, deletes = [] }: { puts?: Record<string, string>; deletes?: readonly string[] },
) {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(`openUpload answered ${opened.reason}`);
  const { upload } = opened;
  const contents = Object.entries(puts).map(([path, text]) => ({ path, content: inline(text) }));
  await branch.uploads.add({ upload, contents: contents.map(({ content }) => content) });
  const operations = [
    ...deletes.map((path) => ({ delete: path })),
    ...contents.map(({ path, content: { digest, size } }) => ({ put: path, digest, size })),
  ];
  return await branch.files.commit({ upload, operations });
}

/** The entries of one page, a common prefix in brackets. */
export async function listed(branch: BranchStub, request: Partial<ListFiles> = {}): Promise<string[]> {
  const page = await branch.files.list({ prefix: "", limit: 1000, ...request });
  if (!page.ok) throw new Error(`list answered ${page.reason}`);
  return page.entries.map(shown);
}

export function shown(entry: ListEntry): string {
  return entry.kind === "prefix" ? `[${entry.path}]` : entry.path;
}

/** Makes the catalogue unreachable while `work` runs. */
export async function withoutCatalogue<T>(work: () => Promise<T>): Promise<T> {
  await env.DB.prepare(
    "CREATE TRIGGER away BEFORE INSERT ON branches BEGIN SELECT RAISE(ABORT, 'can not be written'); END",
  ).run();
  try {
    return await work();
  } finally {
    await env.DB.exec("DROP TRIGGER away");
  }
}

/** Whether the catalogue lists a bucket's branch. */
export async function isCatalogued(bucket: string): Promise<boolean> {
  const rows = await openCatalogue(env.DB).branches.list({ limit: 1000 });
  return rows.some(({ repo, branch }) => `${branch}.${repo}` === bucket);
}

/** What the tables say of bytes. */
export function ledgerOf(branch: BranchStub) {
  return runInDurableObject(branch, (_, { storage: { sql } }) => ({
    refs: sql
      .exec("SELECT size, refs FROM contents ORDER BY size")
      .toArray()
      .map(({ size, refs }) => [size, refs]),
    blobs: sql
      .exec("SELECT name, refs FROM blobs ORDER BY name")
      .toArray()
      .map(({ name, refs }) => [name, refs]),
    condemned: sql
      .exec("SELECT blob FROM pending_deletions ORDER BY blob")
      .toArray()
      .map(({ blob }) => blob),
    holds: sql.exec(`SELECT count(*) AS n FROM ${HELD}`).one().n,
    uploads: sql.exec("SELECT count(*) AS n FROM uploads").one().n,
  }));
}

/** A multipart upload that has begun. */
export async function begin(branch: BranchStub, request: Partial<CreateMultipart> = {}): Promise<string> {
  const opened = await branch.multipart.create({ path: "big", attributes: {}, ttlMs: DAY_MS, ...request });
  if (!opened.ok) throw new Error(`createMultipart answered ${opened.reason}`);
  return opened.upload;
}

/** As if so much time had passed for what waits in these tables. */
export async function passed(branch: BranchStub, ms: number): Promise<void> {
  await runInDurableObject(branch, (_, { storage: { sql } }) => {
    for (const table of ["uploads", "completions", "pending_deletions", "sweeps"])
      sql.exec(`UPDATE ${table} SET due = due - ?`, ms);
  });
}

export const DAY_MS = 24 * 60 * 60 * 1000;

/** The whole of these parts, in one piece, with its own manifest blob if one is named. */
export function joined(parts: readonly Content[], manifest?: string): Content {
  const id = idOf(new TextEncoder().encode(parts.map(({ digest }) => digest).join()));
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  const keeps = parts.map(({ digest, size }) => ({ digest, size }));
  const chunks = parts.flatMap(({ body }) => (body.kind === "chunks" ? body.chunks : []));
  const body = manifest
    ? ({ kind: "manifest", blob: manifest, length: 1 } as const)
    : ({ kind: "chunks", chunks } as const);
  return { digest: id.digest, size, body, keeps };
}

/** What a completion is asked with that names these parts, by number. */
export function completion(upload: string, parts: Record<number, Content>, manifest?: string) {
  const named = Object.entries(parts).map(([number, { digest, size }]) => ({
    number: Number(number),
    digest,
    size,
  }));
  return { upload, parts: named, content: joined(Object.values(parts), manifest), attributes: {} };
}

/** The order of S3: bytes of UTF-8. */
export function byBytes(a: string, b: string): number {
  const encoder = new TextEncoder();
  const [left, right] = [encoder.encode(a), encoder.encode(b)];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Numbers from 0 up to 1, the same ones each run. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

/** A new open commit. */
export async function startOpenCommit(branch: BranchStub, ttlMs = DAY_MS): Promise<string> {
  const opened = await branch.openCommits.start({ ttlMs });
  if (!opened.ok) throw new Error(`startOpenCommit answered ${opened.reason}`);
  return opened.openCommit;
}

/** Stages files, whose text is their path, and deletions. */
export async function stage(
  branch: BranchStub,
  openCommit: string,
  { puts = [], deletes = [] }: { puts?: readonly string[]; deletes?: readonly string[] },
): Promise<void> {
  for (const path of puts) {
    const answer = await branch.files.put({ openCommit, path, content: inline(path), attributes: {} });
    expectStaged(answer);
  }
  if (deletes.length === 0) return;
  expectStaged(
    await branch.files.commit({ openCommit, operations: deletes.map((path) => ({ delete: path })) }),
  );
}

function expectStaged(answer: Committed | CommitRefused): void {
  if (committed(answer) !== null) throw new Error("a staged write made a commit");
}

/** Finishes an open commit and waits until that is done. */
export async function finished(
  branch: BranchStub,
  openCommit: string,
): Promise<Exclude<OpenCommitEnd, { state: "applying" }>> {
  for (;;) {
    const answer = await branch.openCommits.finish({ openCommit });
    if (!answer.ok) throw new Error(`finishOpenCommit answered ${JSON.stringify(answer)}`);
    if (answer.state === "finished") return answer;
    await scheduler.wait(1);
  }
}

/** Lets the alarm ring until all that waits to be told is told. It may ring by itself meanwhile, and then does it beside this. */
export async function allTold(branch: BranchStub): Promise<void> {
  await expect
    .poll(async () => {
      await runInDurableObject(
        branch,
        (_, { storage: { sql } }) => void sql.exec("UPDATE outbox SET due = 0"),
      );
      await runDurableObjectAlarm(branch);
      return await runInDurableObject(branch, (_, { storage: { sql } }) =>
        sql.exec("SELECT receiver FROM outbox").toArray(),
      );
    })
    .toEqual([]);
}

/** Runs the alarm until what ended open commits staged is gone, and what they kept buried. */
export async function drained(branch: BranchStub): Promise<void> {
  await expect
    .poll(
      async () => {
        await runDurableObjectAlarm(branch);
        return await runInDurableObject(branch, (_, { storage: { sql } }) => {
          const { n } = sql.exec("SELECT count(*) AS n FROM open_commits WHERE state = 3").one();
          return Number(n) + Number(sql.exec("SELECT count(*) AS n FROM contents WHERE refs = 0").one().n);
        });
      },
      { timeout: 60_000 },
    )
    .toBe(0);
}
