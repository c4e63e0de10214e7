import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { mustTakeWrites } from "../bucket-tree.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** Deletes a branch, empty or not, unless it is set to go only when it is empty. S3 deletes empty buckets only. */
export const deleteBucket: Operation<BucketRequest> = {
  permission: "admin",

  async handle(request) {
    const { branch, address, caller } = request;
    if (address.view !== undefined) {
      await mustTakeWrites(request);
      throw new S3Error("InvalidRequest", { message: NOT_DELETED });
    }
    accepted(await branch.destroy({ key: caller.keyId }));
    return new Response(null, { status: 204 });
  },
};

const NOT_DELETED =
  "The bucket of an open commit is not deleted like others: publish it with 'sluice commit finish s3://<session>.<branch>.<repo>', or forget it with 'sluice commit abort'.";
