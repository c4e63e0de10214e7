import { branchFailure } from "../answer/failures.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** Deletes a branch, empty or not (spec §4.1), where S3 wants it empty. */
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
