import { branchFailure } from "../answer/failures.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** Deletes a branch, empty or not. S3 deletes empty buckets only. */
export const deleteBucket: Operation<BucketRequest> = {
  permission: "admin",
  notOnOpenCommit:
    "The bucket of an open commit is not deleted like others: publish it with 'sluice commit finish s3://<session>.<branch>.<repo>', or forget it with 'sluice commit abort'.",

  async handle({ branch }) {
    const deleted = await branch.destroy();
    if (!deleted.ok) throw branchFailure(deleted);
    return new Response(null, { status: 204 });
  },
};
