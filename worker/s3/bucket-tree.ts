import { type BucketAddress, bucketName, type ViewAddress, viewBucket } from "../../protocol/names.ts";
import type { Context } from "../app.ts";
import type { Protected, PublicRead, Refused } from "../branch/contract/answers.ts";
import type { BranchApi } from "../branch/contract/api.ts";
import type { FileCalls, ReadAnswer, ReadFile, Unchanged, ViewShown } from "../branch/contract/files.ts";
import type { LifecycleCalls } from "../branch/contract/lifecycle.ts";
import type { ListMultiparts, MultipartCalls, MultipartList } from "../branch/contract/multipart.ts";
import type { UploadCalls, UploadOpened } from "../branch/contract/uploads.ts";
import { type S3Error, s3Error } from "./answer/errors.ts";
import { accepted } from "./answer/failures.ts";

type Narrowed = "read" | "list" | "put" | "commit" | "setTags";
type Absent = Refused<
  "no-such-branch" | "forking" | "no-such-open-commit" | "no-such-version" | "not-public"
>;
type FreshRead = Omit<ReadFile, "have">;
type Shared = ReturnType<Context["shared"]>;
type Status = { readonly ok: true } & BucketStatus;

/** How a bucket that is there stands. */
interface BucketStatus extends Pick<ViewShown, "modifiedAt"> {
  /** Absent: HEAD. */
  readonly shows?: ViewShown["shows"];
}

/** What a bucket shows and takes: the newest state of its branch, that of one of its open commits, or one of its commits. */
export interface BucketTree extends Pick<FileCalls, Exclude<Narrowed, "read">> {
  /** One file. */
  read(request: FreshRead): Promise<ReadAnswer>;
  /** The same, for somebody who keeps what it answers. */
  readAgain(request: ReadFile): Promise<ReadAnswer | Unchanged>;
  /** Whether it is there, and what it is. */
  status(request?: PublicRead): Promise<Status | Absent>;
  /** What `read`, `list` and the branch's `versions` would answer, as far as memory has it. */
  readonly shared: Shared;
  /** For a body that is to be put. */
  openUpload(request: {
    readonly lease?: never;
    readonly key: string;
  }): Promise<
    | UploadOpened
    | Protected
    | Absent
    | Refused<"pipeline-output" | "read-only" | "lost-lease" | "branch-full">
  >;
  readonly createMultipart: MultipartCalls["create"];
  /** The multipart uploads whose objects go into it. */
  listMultiparts(request: ListMultiparts): Promise<MultipartList | Absent>;
}

/** The rest of a branch, which a view does not change: uploads and their parts, versions, the branch itself. */
export interface BesideTree extends Omit<BranchApi, "lifecycle" | "files" | "uploads" | "multipart"> {
  readonly lifecycle: Omit<LifecycleCalls, "status">;
  readonly files: Omit<FileCalls, Narrowed | "view">;
  readonly uploads: Omit<UploadCalls, "open">;
  readonly multipart: Omit<MultipartCalls, "create" | "list">;
}

/** What is behind a bucket of a branch. Asks nothing yet. */
export function openTree(
  branch: BranchApi,
  { view, ...address }: BucketAddress,
  shared?: Shared,
): BucketTree {
  if (view !== undefined) return viewTree(branch, { ...address, view });
  return headTree(branch, shared);
}

function headTree({ lifecycle, files, uploads, multipart }: BranchApi, shared: Shared): BucketTree {
  return {
    shared,
    status: (request) => lifecycle.status(request),
    read: (request) => files.read(request),
    readAgain: (request) => files.read(request),
    list: (request) => files.list(request),
    put: (request) => files.put(request),
    commit: (request) => files.commit(request),
    setTags: (request) => files.setTags(request),
    openUpload: (request) => uploads.open(request),
    createMultipart: (request) => multipart.create(request),
    listMultiparts: (request) => multipart.list(request),
  };
}

/** A tree for somebody without a key: each read is done only if the branch, when it reads, is public. */
export function publicTree(tree: BucketTree): BucketTree {
  const { shared } = tree;
  const noWrite = () => Promise.reject(new Error("a request without a signature was about to write"));
  return {
    status: () => tree.status({ publicOnly: true }),
    shared: shared && {
      read: (request) => shared.read({ ...request, publicOnly: true }),
      page: (listing) => shared.page({ ...listing, publicOnly: true }),
    },
    read: (request) => tree.read({ ...request, publicOnly: true }),
    readAgain: (request) => tree.readAgain({ ...request, publicOnly: true }),
    list: (request) => tree.list({ ...request, publicOnly: true }),
    put: noWrite,
    commit: noWrite,
    setTags: noWrite,
    openUpload: noWrite,
    createMultipart: noWrite,
    listMultiparts: noWrite,
  };
}

/**
 * A branch as one of its open commits or commits shows it. That every read and write names the view is held here alone: a
 * write that did not would be seen at once. Whether it is an open commit, a commit or a tag is decided by the branch, in
 * the call that reads or writes: nobody asks first.
 */
function viewTree({ files, uploads, multipart }: BranchApi, address: ViewAddress): BucketTree {
  const { view } = address;
  const named = { openCommit: view };
  /** A branch that is not there has no views: a caller that asked for one hears that, not of the branch. */
  const told = async <A extends Answer>(answer: Promise<A>): Promise<A | typeof NO_VIEW> => {
    const found = await answer;
    if (found.ok) return found;
    if (found.reason === "read-only") throw readOnly(address);
    return found.reason === "no-such-branch" ? NO_VIEW : found;
  };
  const status = (request?: PublicRead) => told(files.view({ view, ...request }));
  return {
    status,
    shared: undefined,
    read: (request) => told(files.read({ ...request, ...named })),
    readAgain: (request) => told(files.read({ ...request, ...named })),
    list: (request) => told(files.list({ ...request, ...named })),
    put: (request) => told(files.put({ ...request, ...named })),
    commit: (request) => told(files.commit({ ...request, ...named })),
    setTags: (request) => told(files.setTags({ ...request, ...named })),
    openUpload: (request) => told(uploads.open({ ...request, ...named })),
    createMultipart: (request) => told(multipart.create({ ...request, ...named })),
    async listMultiparts(request) {
      const found = await status();
      if (!found.ok) return found;
      if (found.shows !== "open-commit") throw readOnly(address);
      return await told(multipart.list({ ...request, ...named }));
    },
  };
}

type Answer = { readonly ok: true } | { readonly ok: false; readonly reason: string };

const NO_VIEW = { ok: false, reason: "no-such-open-commit" } as const;

/** The state of a bucket. Throws NoSuchBucket if it is not there. */
export async function existing(tree: BucketTree): Promise<BucketStatus> {
  return accepted(await tree.status());
}

/** Throws NoSuchBucket, and MethodNotAllowed if the bucket is that of a commit or a tag, into which nothing is ever written. */
export async function mustTakeWrites({
  tree,
  address: { view, ...address },
}: {
  readonly tree: BucketTree;
  readonly address: BucketAddress;
}): Promise<void> {
  const { shows } = await existing(tree);
  if (view !== undefined && shows !== "open-commit") throw readOnly({ ...address, view });
}

/** The error for a write into the bucket of a commit or a tag. */
export function readOnly(address: ViewAddress): S3Error {
  const branch = bucketName(address);
  return s3Error.MethodNotAllowed(
    `The bucket '${viewBucket(address)}' shows one commit of the branch, which never changes: it is read-only. Write to '${branch}', or to an open commit of it ('sluice commit start s3://${branch}').`,
    { headers: { allow: "GET, HEAD" } },
  );
}
