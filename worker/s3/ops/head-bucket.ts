import { branchFailure } from "../failures.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** Whether a branch is there. */
export const headBucket: Operation<BucketRequest> = {
  permission: "list",

  async handle({ branch }) {
    const status = await branch.status();
    if (!status.ok) throw branchFailure(status);
    return new Response(null);
  },
};
