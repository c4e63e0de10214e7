import { branchFailure } from "../answer/failures.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** Whether a branch is there. */
export const headBucket: Operation<BucketRequest> = {
  permission: "list",

  async handle({ tree }) {
    const status = await tree.status();
    if (!status.ok) throw branchFailure(status);
    return new Response(null);
  },
};
