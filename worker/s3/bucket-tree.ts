import type { BucketAddress } from "../../protocol/names.ts";
import type { Context } from "../app.ts";
import type * as Branch from "../branch/contract.ts";
import { branchFailure } from "./answer/failures.ts";

type Narrowed = "read" | "list" | "put" | "commit" | "createMultipart";
type Absent = Branch.Refused<"no-such-branch" | "no-such-open-commit">;
type Status = { readonly ok: true; readonly modifiedAt: number } | Absent;

/** What a bucket shows and takes: the newest state of its branch, or that of one of the branch's open commits. */
export interface BucketTree extends Pick<Branch.BranchApi, Narrowed> {
  /** Whether it is there. `modifiedAt`: time of the branch's newest commit. */
  status(): Promise<Status>;
  /** For a body that is to be put. */
  openUpload(request: {
    readonly lease?: never;
  }): Promise<Branch.UploadOpened | Absent | Branch.Refused<"pipeline-output">>;
  /** The multipart uploads whose objects go into it. */
  listMultiparts(request: Branch.ListMultiparts): Promise<Branch.MultipartList | Absent>;
}

/** The rest of a branch, which an open commit does not change: uploads and their parts, versions, the branch itself. */
export type BesideTree = Omit<Branch.BranchApi, keyof BucketTree>;

/** What is behind a bucket. Asks nothing yet. */
export function openTree(
  context: Pick<Context, "branch">,
  { session: openCommit, ...address }: BucketAddress,
): BucketTree {
  const branch = context.branch(address);
  return openCommit === undefined ? branch : openCommitTree(branch, openCommit);
}

/**
 * A branch as one of its open commits shows it. That every read and write names the open commit is held here alone: a
 * write that did not would be seen at once.
 */
function openCommitTree(branch: Branch.BranchApi, openCommit: string): BucketTree {
  const status = async (): Promise<Status> => {
    const found = await branch.openCommitStatus({ openCommit });
    if (!found.ok) return found;
    return found.state === "open" ? await told(branch.status()) : NO_OPEN_COMMIT;
  };
  return {
    status,
    read: (request) => told(branch.read({ ...request, openCommit })),
    list: (request) => told(branch.list({ ...request, openCommit })),
    put: (request) => told(branch.put({ ...request, openCommit })),
    commit: (request) => told(branch.commit({ ...request, openCommit })),
    openUpload: (request) => told(branch.openUpload(request)),
    createMultipart: (request) => told(branch.createMultipart({ ...request, openCommit })),
    async listMultiparts(request) {
      const found = await status();
      return found.ok ? await told(branch.listMultiparts({ ...request, openCommit })) : found;
    },
  };
}

const NO_OPEN_COMMIT = { ok: false, reason: "no-such-open-commit" } as const;

/** A branch that is not there has no open commits. A caller that asked for one hears that, not of the branch. */
async function told<A extends { readonly ok: true } | { readonly ok: false; readonly reason: string }>(
  answer: Promise<A>,
): Promise<A | typeof NO_OPEN_COMMIT> {
  const found = await answer;
  return !found.ok && found.reason === "no-such-branch" ? NO_OPEN_COMMIT : found;
}

/** The state of a bucket. Throws NoSuchBucket if it is not there. */
export async function existing(tree: BucketTree): Promise<{ readonly modifiedAt: number }> {
  const status = await tree.status();
  if (!status.ok) throw branchFailure(status);
  return status;
}
