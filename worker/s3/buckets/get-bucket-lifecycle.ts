import { holdingRules } from "../../core/lifecycle-rules.ts";
import { S3Error } from "../answer/errors.ts";
import { branchFailure } from "../answer/failures.ts";
import { xmlAnswer } from "../answer/xml.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { lifecycleTags } from "./lifecycle-document.ts";
import { LIFECYCLE_OF_BRANCH } from "./put-bucket-lifecycle.ts";

/** The rules as they were put. */
export const getBucketLifecycle: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: LIFECYCLE_OF_BRANCH,

  async handle({ branch }) {
    const settings = await branch.settings();
    if (!settings.ok) throw branchFailure(settings);
    const rules = holdingRules(settings.lifecycle?.rules ?? [], settings.keep);
    if (rules.length === 0) throw new S3Error("NoSuchLifecycleConfiguration");
    return xmlAnswer("LifecycleConfiguration", lifecycleTags(rules));
  },
};
