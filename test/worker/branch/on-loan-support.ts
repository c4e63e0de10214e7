import { env, runInDurableObject } from "cloudflare:test";
import { expect } from "vitest";
import type { ContentId } from "../../../protocol/content.ts";
import { parseBucketName } from "../../../protocol/names.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { VersionName } from "../../../worker/branch/contract/erasures.ts";
import { eraseThroughForks } from "../../../worker/erase.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import { forkOf } from "./fork-support.ts";
import { type BranchStub, chunked, committed, freshBranch, freshBucket } from "./support.ts";

/** The same bytes are in another blob if somebody else brings them. */
export const contentOf = (n: number, blobs = "old"): Content => chunked(`large ${n}`, [`${blobs}/${n}`]);
export const idOf = (n: number): ContentId => {
  const { digest, size } = contentOf(n);
  return { digest, size };
};
export const pathOf = (n: number): string => `file ${String(n).padStart(4, "0")}`;
export const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);
export const api = (branch: BranchStub): BranchApi => branch;

/** Brings contents, and makes one commit of a file of each. Returns the versions. */
export async function write(
  branch: BranchApi,
  files: readonly { path: string; content: Content }[],
): Promise<VersionName[]> {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  const { upload } = opened;
  await branch.uploads.add({ upload, contents: files.map(({ content }) => content) });
  const operations = files.map(({ path, content: { digest, size } }) => ({ put: path, digest, size }));
  const version = committed(await branch.files.commit({ upload, operations })) ?? "";
  return files.map(({ path }) => ({ path, version }));
}

/** A PUT as the gateway makes it: with its bytes in blobs of its own, whatever is there. */
export async function putAnew(branch: BranchApi, n: number): Promise<void> {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  const { upload } = opened;
  committed(
    await branch.files.put({ path: pathOf(n), content: contentOf(n, "new"), attributes: {}, upload }),
  );
}

export function erase(bucket: string, versions: readonly VersionName[]) {
  const address = parseBucketName(bucket);
  if (!address) throw new Error(bucket);
  const branches = (of: { repo: string; branch: string }) =>
    clientOf<BranchApi>(env.BRANCH.getByName(`${of.branch}.${of.repo}`));
  return eraseThroughForks(branches, { address, versions, forks: { mayErase: () => true } });
}

export interface Held {
  readonly from: string;
  readonly parent: BranchStub;
  readonly bucket: string;
  readonly branch: BranchStub;
  /** The files that the fork made of its parent's bytes. */
  readonly copies: readonly VersionName[];
}

/** A branch with so many large files, and a fork of it that has copies of them beside the files. */
export async function withCopies(
  files: number,
): Promise<Held & { readonly versions: readonly VersionName[] }> {
  const from = freshBucket();
  const parent = await freshBranch(from);
  const versions = await write(
    api(parent),
    numbers(files).map((n) => ({ path: pathOf(n), content: contentOf(n) })),
  );
  const { bucket, branch } = await forkOf(from);
  const operations = numbers(files).map((n) => ({ put: `copy/${n}`, ...idOf(n) }));
  const version = committed(await branch.files.commit({ operations })) ?? "";
  const copies = operations.map(({ put }) => ({ path: put, version }));
  return { from, parent, bucket, branch, copies, versions };
}

/** The same, of which the branch has erased the files: holds of the fork alone keep their bytes. */
export async function held(files: number): Promise<Held> {
  const { versions, ...world } = await withCopies(files);
  expect(await erase(world.from, versions)).toMatchObject({ ok: true });
  expect(await forkHoldsOf(world.parent)).toBe(files);
  return world;
}

const count = (branch: BranchStub, what: string): Promise<number> =>
  runInDurableObject(branch, (_, { storage: { sql } }) =>
    Number(sql.exec(`SELECT count(*) AS n FROM ${what}`).one().n),
  );
export const forkHoldsOf = (branch: BranchStub) => count(branch, "fork_holds");
export const unheard = (branch: BranchStub) => count(branch, "give_backs");

/** The blobs of a file at HEAD. */
export async function blobsOf(branch: BranchStub, path: string): Promise<readonly string[]> {
  const read = await branch.files.read({ path });
  if (!read.ok || read.body.kind !== "chunks") throw new Error(`no chunks at ${path}`);
  return read.body.chunks.map(({ blob }) => blob);
}
