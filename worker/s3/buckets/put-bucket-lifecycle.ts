import { branchFailure } from "../answer/failures.ts";
import { readTextBody } from "../body/read-body.ts";
import { MAX_LIFECYCLE_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { parseLifecycle } from "./lifecycle-document.ts";

/** What is said of lifecycle rules on the bucket of an open commit or a commit. */
export const LIFECYCLE_OF_BRANCH =
  "Lifecycle rules are those of the whole branch: name the bucket '<branch>.<repo>'.";

/** Replaces the rules by which files and uploads of the branch go with time. */
export const putBucketLifecycle: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: LIFECYCLE_OF_BRANCH,

  async handle(request) {
    const rules = parseLifecycle(await readTextBody(request, MAX_LIFECYCLE_BYTES));
    const done = await request.branch.configure({ lifecycle: { rules, key: request.caller.keyId } });
    if (!done.ok) throw branchFailure(done);
    return new Response(null);
  },
};
