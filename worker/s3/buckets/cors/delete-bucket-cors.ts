import { branchFailure } from "../../answer/failures.ts";
import type { BucketRequest, Operation } from "../../operation.ts";
import { CORS_OF_BRANCH } from "./put-bucket-cors.ts";

/** Takes all rules away; 204 also if there are none. */
export const deleteBucketCors: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: CORS_OF_BRANCH,

  async handle({ branch, context }) {
    const done = await branch.configure({ cors: null });
    context.openBranches.forget();
    if (!done.ok) throw branchFailure(done);
    return new Response(null, { status: 204 });
  },
};
