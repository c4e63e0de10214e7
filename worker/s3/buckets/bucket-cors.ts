import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { MAX_CORS_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { corsTags, parseCors } from "./cors-document.ts";

/** What is said of CORS on the bucket of an open commit or a commit. */
const CORS_OF_BRANCH =
  "CORS rules are those of the whole branch: name the bucket '<branch>.<repo>'. They hold for its open commits, commits and tags, too.";

/** The rules as they were put. */
export const getBucketCors: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: CORS_OF_BRANCH,

  async handle({ branch }) {
    const settings = accepted(await branch.settings());
    if (settings.cors === null) throw new S3Error("NoSuchCORSConfiguration");
    return xmlAnswer("CORSConfiguration", corsTags(settings.cors));
  },
};

/** Replaces the rules that say which pages from elsewhere may read answers of the branch. */
export const putBucketCors: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: CORS_OF_BRANCH,

  async handle(request) {
    const cors = parseCors(await readTextBody(request, MAX_CORS_BYTES));
    const done = await request.branch.configure({ cors });
    request.context.openBranches.forget();
    accepted(done);
    return new Response(null);
  },
};

/** Takes all rules away; 204 also if there are none. */
export const deleteBucketCors: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: CORS_OF_BRANCH,

  async handle({ branch, context }) {
    const done = await branch.configure({ cors: null });
    context.openBranches.forget();
    accepted(done);
    return new Response(null, { status: 204 });
  },
};
