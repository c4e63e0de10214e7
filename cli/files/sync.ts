import { lstat, opendir, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type ContentId, contentName } from "../../protocol/content.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import type { Address } from "../gateway/address.ts";
import type { Client } from "../gateway/client.ts";
import { byBytes, directoryPrefix, isNoBucket, listFiles } from "../gateway/objects.ts";
import { CliError } from "../output/failure.ts";
import { downloadFile } from "./download.ts";
import { checkTarget, describe, hashFile, isPlain } from "./local-tree.ts";
import { makeFolder } from "./placing.ts";
import type { Progress } from "./progress.ts";

/**
 * A folder and a path of a bucket, made alike. Both are walked in the order of the bytes of their paths and compared as they
 * come, so that two trees of any size cost one name of each, beside the folder that is being read and what differs. Files of the same size are
 * compared by their digest: times and clocks are asked for nothing.
 */
export interface SyncedTrees {
  readonly folder: string;
  readonly address: Address;
  /** Paths, from the top of both, that are left alone on both sides. */
  readonly excludes: (path: string) => boolean;
  readonly skipSpecial: boolean;
}

/** What differs, each path from the top. What `delete` has is only where the files go to. */
export interface SyncPlan {
  readonly copy: readonly { readonly path: string; readonly size: number; readonly content?: ContentId }[];
  readonly delete: readonly string[];
  readonly same: number;
}

interface Side {
  /** Ends in `/` for an empty folder. */
  readonly path: string;
  readonly size: number;
}
interface RemoteSide extends Side {
  readonly etag: string;
}
interface Pair {
  readonly local: Side | undefined;
  readonly remote: RemoteSide | undefined;
}

const LANES = 4;

/** Compares, from the folder to the bucket. */
export function planUp(client: Client, trees: SyncedTrees, progress: Progress): Promise<SyncPlan> {
  return planOf(pairs(client, trees), { folder: trees.folder, progress, way: "up" });
}

/** Compares, from the bucket to the folder. */
export function planDown(client: Client, trees: SyncedTrees, progress: Progress): Promise<SyncPlan> {
  const all = pairs(client, { ...trees, skipSpecial: true });
  return planOf(all, { folder: trees.folder, progress, way: "down" });
}

async function planOf(
  all: AsyncIterable<Pair>,
  { folder, progress, way }: { folder: string; progress: Progress; way: "up" | "down" },
): Promise<SyncPlan> {
  const plan = { copy: [] as SyncPlan["copy"][number][], delete: [] as string[], same: 0 };
  await forEachLimited(all, {
    limit: LANES,
    work: async ({ local, remote }) => {
      const [from, to] = way === "up" ? [local, remote] : [remote, local];
      if (!from) {
        if (to) plan.delete.push(to.path);
      } else if (!local || !remote || remote.size !== local.size) plan.copy.push(from);
      else {
        const content = await digestOf(folder, { file: local, progress });
        if (content === undefined || contentName(content) === remote.etag) plan.same++;
        else plan.copy.push(way === "up" ? { ...local, content } : remote);
      }
    },
  });
  // Files are looked at side by side, and come in the order in which they were done.
  plan.copy.sort((one, other) => byBytes(one.path, other.path));
  plan.delete.sort(byBytes);
  return plan;
}

/** Undefined for an empty folder, which has no bytes. */
async function digestOf(
  folder: string,
  { file, progress }: { file: Side; progress: Progress },
): Promise<ContentId | undefined> {
  if (file.path.endsWith("/")) return undefined;
  progress.grow(file.size);
  return await hashFile(join(folder, file.path), { onBytes: (bytes) => progress.advance(bytes) });
}

/** Does to the folder what a plan says. What is to go goes first: a folder may be in the way of a file. */
export async function applyDown(
  client: Client,
  { folder, address }: Pick<SyncedTrees, "folder" | "address">,
  { plan, remove, progress }: { plan: SyncPlan; remove: boolean; progress: Progress },
): Promise<void> {
  if (remove) for (const path of plan.delete) await removeLocal(folder, path);
  const prefix = directoryPrefix(address.path);
  progress.begin(
    "receiving",
    plan.copy.reduce((sum, { size }) => sum + size, 0),
  );
  await forEachLimited(plan.copy, {
    limit: LANES,
    work: async ({ path }) => {
      if (path.endsWith("/")) await makeFolder(folder, path);
      else {
        const from = { ...address, path: prefix + path };
        await downloadFile(client, { from, target: join(folder, path), top: folder, progress });
      }
    },
  });
  progress.end();
}

async function removeLocal(folder: string, path: string): Promise<void> {
  const target = join(folder, path);
  if (path.endsWith("/")) await rmdir(target).catch(() => undefined);
  else await rm(target, { force: true });
  // A bucket has no folders but those that hold something.
  for (let at = dirname(path); at !== "."; at = dirname(at)) {
    const gone = await rmdir(join(folder, at)).then(
      () => true,
      () => false,
    );
    if (!gone) return;
  }
}

/** Both sides, path by path. */
async function* pairs(client: Client, trees: SyncedTrees): AsyncGenerator<Pair> {
  const locals = localFiles(trees)[Symbol.asyncIterator]();
  const remotes = remoteFiles(client, trees)[Symbol.asyncIterator]();
  let [local, remote] = [await locals.next(), await remotes.next()];
  while (!local.done || !remote.done) {
    const order = local.done ? 1 : remote.done ? -1 : byBytes(local.value.path, remote.value.path);
    yield {
      local: order <= 0 && !local.done ? local.value : undefined,
      remote: order >= 0 && !remote.done ? remote.value : undefined,
    };
    if (order <= 0) local = await locals.next();
    if (order >= 0) remote = await remotes.next();
  }
}

async function* remoteFiles(client: Client, { address, excludes }: SyncedTrees): AsyncGenerator<RemoteSide> {
  const prefix = directoryPrefix(address.path);
  try {
    for await (const { path: whole, size, etag } of listFiles(client, { bucket: address.bucket, prefix })) {
      const path = whole.slice(prefix.length);
      // The folder itself, if it is empty.
      if (path !== "" && !excludes(path.replace(/\/$/, ""))) yield { path, size, etag };
    }
  } catch (error) {
    if (!isNoBucket(error)) throw error;
    throw new CliError(`there is no bucket s3://${address.bucket}: 'sluice mb' makes one`, {
      code: "NoSuchBucket",
    });
  }
}

async function* localFiles({ folder, excludes, skipSpecial }: SyncedTrees): AsyncGenerator<Side> {
  const top = await lstat(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return undefined;
  });
  if (top === undefined) return;
  yield* filesBelow(folder, { into: "", excludes, skipSpecial });
}

/** In the order of listings, in which a folder stands where its name with a `/` does. */
async function* filesBelow(
  folder: string,
  options: { into: string; excludes: (path: string) => boolean; skipSpecial: boolean },
): AsyncGenerator<Side> {
  const { into, excludes, skipSpecial } = options;
  const entries = [];
  let others = 0;
  for await (const entry of await opendir(folder)) {
    const path = into + entry.name;
    if (excludes(path) || (!isPlain(entry) && skipSpecial)) others++;
    else if (!isPlain(entry)) {
      throw new CliError(
        `${join(folder, entry.name)} is ${describe(entry)}, which a branch can't hold: remove it, leave it out with --exclude, or all such with --skip-special`,
      );
    } else entries.push({ name: entry.name, key: entry.isDirectory() ? `${entry.name}/` : entry.name });
  }
  if (entries.length === 0 && others === 0 && into !== "") yield { path: into, size: 0 };
  for (const { name, key } of entries.toSorted((one, other) => byBytes(one.key, other.key))) {
    const path = into + key;
    checkTarget(join(folder, name), path);
    if (key.endsWith("/")) yield* filesBelow(join(folder, name), { ...options, into: path });
    else yield { path, size: (await lstat(join(folder, name))).size };
  }
}
