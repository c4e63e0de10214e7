import { holdingRules } from "../../core/lifecycle-rules.ts";
import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { MAX_LIFECYCLE_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { lifecycleTags, parseLifecycle } from "./lifecycle-document.ts";

/** What is said of lifecycle rules on the bucket of an open commit or a commit. */
const LIFECYCLE_OF_BRANCH =
  "Lifecycle rules are those of the whole branch: name the bucket '<branch>.<repo>'.";

/** The rules as they were put. */
export const getBucketLifecycle: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: LIFECYCLE_OF_BRANCH,

  async handle({ branch }) {
    const settings = accepted(await branch.settings());
    const rules = holdingRules(settings.lifecycle?.rules ?? [], settings.keep);
    if (rules.length === 0) throw new S3Error("NoSuchLifecycleConfiguration");
    return xmlAnswer("LifecycleConfiguration", lifecycleTags(rules));
  },
};

/** Replaces the rules by which files and uploads of the branch go with time. */
export const putBucketLifecycle: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: LIFECYCLE_OF_BRANCH,

  async handle(request) {
    const rules = parseLifecycle(await readTextBody(request, MAX_LIFECYCLE_BYTES));
    accepted(await request.branch.configure({ lifecycle: { rules, key: request.caller.keyId } }));
    return new Response(null);
  },
};

/** Takes all rules away; 204 also if there are none. */
export const deleteBucketLifecycle: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: LIFECYCLE_OF_BRANCH,

  async handle({ branch }) {
    accepted(await branch.configure({ lifecycle: null }));
    return new Response(null, { status: 204 });
  },
};
