import type { Annotation } from "../../branch/contract/answers.ts";
import type { VersionName } from "../../branch/contract/erasures.ts";
import type { Operation } from "../../branch/contract/files.ts";
import { permits } from "../../core/permissions.ts";
import { type ErasedThrough, eraseThroughForks, type HoldingFork, heldText } from "../../erase.ts";
import { S3Error } from "../answer/errors.ts";
import { branchFailure } from "../answer/failures.ts";
import type { BucketRequest } from "../operation.ts";

interface Erasure {
  readonly versions: readonly VersionName[];
  /** In the same step. */
  readonly deletions?: readonly Operation[];
  readonly annotation: Annotation;
}

/** Erases versions for good, but for those that forks have, which it says: S3 has no word for "there too". */
export async function eraseVersions(
  { address, context }: Pick<BucketRequest, "address" | "context">,
  erasure: Erasure,
): Promise<ErasedThrough> {
  const { repo, branch } = address;
  const done = await eraseThroughForks(context.branch, {
    ...erasure,
    address: { repo, branch },
    forks: "leave-out",
  });
  if (done.ok) return done;
  if (done.reason === "held" || done.reason === "fork-denied") {
    throw new Error("a fork stopped what was to go on without it");
  }
  throw branchFailure(done);
}

/** The error of one version that forks have. */
export function heldFailure(
  { caller }: Pick<BucketRequest, "caller">,
  forks: readonly HoldingFork[],
): S3Error {
  const mayRead = (repo: string) => permits(caller.scope, { permission: "read", repo });
  return new S3Error("HeldByFork", { message: heldText(forks, mayRead) });
}
