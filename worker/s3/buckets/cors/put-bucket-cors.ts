import { branchFailure } from "../../answer/failures.ts";
import { readTextBody } from "../../body/read-body.ts";
import { MAX_CORS_BYTES } from "../../limits.ts";
import type { BucketRequest, Operation } from "../../operation.ts";
import { parseCors } from "./cors-document.ts";

/** What is said of CORS on the bucket of an open commit or a commit. */
export const CORS_OF_BRANCH =
  "CORS rules are those of the whole branch: name the bucket '<branch>.<repo>'. They hold for its open commits, commits and tags, too.";

/** Replaces the rules that say which pages from elsewhere may read answers of the branch. */
export const putBucketCors: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: CORS_OF_BRANCH,

  async handle(request) {
    const cors = parseCors(await readTextBody(request, MAX_CORS_BYTES));
    const done = await request.branch.configure({ cors });
    request.context.openBranches.forget();
    if (!done.ok) throw branchFailure(done);
    return new Response(null);
  },
};
