import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_SETTING_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { aclTags, readAcl } from "./acl-document.ts";
import { ACCESS_OF_BRANCH, aclOfBucket, turn } from "./public-switch.ts";

/** The canned list that is so: `public-read` of a public branch, also of its commits and tags, else `private`. */
export const getBucketAcl: Operation<BucketRequest> = {
  permission: "list",

  async handle(request) {
    return xmlAnswer("AccessControlPolicy", aclTags(await aclOfBucket(request)));
  },
};

/** Makes the branch public, or ends that, by one of two lists in whatever form. */
export const putBucketAcl: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: ACCESS_OF_BRANCH,

  async handle(request) {
    await existing(request.tree);
    const acl = readAcl(request.headers, await readTextBody(request, MAX_SETTING_BYTES));
    await turn(acl, request);
    return new Response(null);
  },
};
