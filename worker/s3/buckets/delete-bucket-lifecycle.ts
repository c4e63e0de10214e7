import { branchFailure } from "../answer/failures.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { LIFECYCLE_OF_BRANCH } from "./put-bucket-lifecycle.ts";

/** Takes all rules away; 204 also if there are none. */
export const deleteBucketLifecycle: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: LIFECYCLE_OF_BRANCH,

  async handle({ branch }) {
    const done = await branch.configure({ lifecycle: null });
    if (!done.ok) throw branchFailure(done);
    return new Response(null, { status: 204 });
  },
};
