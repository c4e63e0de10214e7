import type { SaidOfCommit } from "../../../protocol/annotations.ts";
import { type ViewAddress, viewBucket } from "../../../protocol/names.ts";
import { forEachLimited } from "../../../runner/lib/concurrency.ts";
import type { Address } from "../../gateway/address.ts";
import type { Client } from "../../gateway/client.ts";
import { copyFile, deleteFile } from "../../gateway/objects.ts";
import { asOneCommit, mustBeOpen } from "../../gateway/open-commits.ts";
import type { RemoteFile } from "./remote-files.ts";

const LANES = 8;

/** A file of a bucket and the path that it is to have in another one, or in the same. */
export interface Copy extends RemoteFile {
  readonly target: string;
}

export interface CopiedWithin {
  /** Null if it was staged in an open commit. */
  readonly commit: string | null;
  readonly files: number;
  readonly bytes: number;
}

export interface CopyWithin {
  readonly copies: AsyncIterable<Copy>;
  readonly to: Address;
  readonly said: SaidOfCommit;
  /** Whether what is copied inside one branch leaves the place that it had, in the same commit. */
  readonly moves: boolean;
}

/** Copies files from bucket to bucket as one commit, without bringing their bytes here. */
export async function copyWithin(
  client: Client,
  { copies, to, said, moves }: CopyWithin,
): Promise<CopiedWithin> {
  const done = { files: 0, bytes: 0 };
  const copyAll = async (
    all: Iterable<Copy> | AsyncIterable<Copy>,
    { repo, branch, view }: ViewAddress,
  ): Promise<void> => {
    const bucket = viewBucket({ repo, branch, view });
    await forEachLimited(all, {
      limit: LANES,
      work: async ({ from, etag, size, target }) => {
        const isDirectory = from.path.endsWith("/");
        await copyFile(client, {
          ...{ from, to: { repo, branch, view, bucket, path: target } },
          ...(!isDirectory && { ifMatch: etag }),
        });
        if (moves && from.bucket === to.bucket && from.path !== target) {
          const old = { ...from, view, bucket };
          await deleteFile(client, old, isDirectory ? {} : { ifMatch: etag });
        }
        done.files++;
        done.bytes += size;
      },
    });
  };
  const { view } = to;
  if (view !== undefined) {
    const open = { repo: to.repo, branch: to.branch, view };
    await mustBeOpen(client, open);
    // What is staged may be listed with what is still to be copied.
    const all: Copy[] = [];
    for await (const copy of copies) all.push(copy);
    await copyAll(all, open);
    return { commit: null, ...done };
  }
  return { commit: await asOneCommit(client, { to, said, fill: (open) => copyAll(copies, open) }), ...done };
}

/**
 * Removes files that are somewhere else now, as one commit. One that has other bytes by now stays: they were not moved.
 */
export async function removeMoved(client: Client, moved: readonly RemoteFile[]): Promise<void> {
  const [first] = moved;
  if (!first) return;
  const remove = async (open: ViewAddress): Promise<void> => {
    await forEachLimited(moved, {
      limit: LANES,
      work: async ({ from, etag }) => {
        const isDirectory = from.path.endsWith("/");
        const staged = { ...from, view: open.view, bucket: viewBucket(open) };
        await deleteFile(client, staged, isDirectory ? {} : { ifMatch: etag });
      },
    });
  };
  const { repo, branch, view } = first.from;
  if (view !== undefined) await remove({ repo, branch, view });
  else await asOneCommit(client, { to: { repo, branch }, fill: remove });
}
