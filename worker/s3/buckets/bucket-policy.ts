import { S3Error } from "../answer/errors.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_POLICY_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { bucketAt } from "../request/address.ts";
import { checkPublicPolicy, publicPolicy } from "./policy-document.ts";
import { ACCESS_OF_BRANCH, aclOfBucket, turn } from "./public-switch.ts";

/** The one policy that there is, with the bucket as it was asked for; NoSuchBucketPolicy of what is not public. */
export const getBucketPolicy: Operation<BucketRequest> = {
  permission: "list",

  async handle(request) {
    await mustBePublic(request);
    return new Response(publicPolicy(request.bucket), { headers: { "content-type": "application/json" } });
  },
};

/** Whether the policy lets everybody in: the one that there is does. */
export const getBucketPolicyStatus: Operation<BucketRequest> = {
  permission: "list",

  async handle(request) {
    await mustBePublic(request);
    return xmlAnswer("PolicyStatus", { IsPublic: true });
  },
};

/** Makes the branch public by a policy that says just that. */
export const putBucketPolicy: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: ACCESS_OF_BRANCH,

  async handle(request) {
    await existing(request.tree);
    const { address, by } = request;
    checkPublicPolicy(await readTextBody(request, MAX_POLICY_BYTES), {
      isBucket(name) {
        const named = bucketAt({ level: "bucket", by, bucket: name });
        return named?.repo === address.repo && named.branch === address.branch && named.view === undefined;
      },
    });
    await turn("public-read", request);
    return new Response(null, { status: 204 });
  },
};

/** Ends it that the branch is public, whatever made it so; 204 also if it is not. */
export const deleteBucketPolicy: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: ACCESS_OF_BRANCH,

  async handle(request) {
    await turn("private", request);
    return new Response(null, { status: 204 });
  },
};

async function mustBePublic(request: BucketRequest): Promise<void> {
  if ((await aclOfBucket(request)) === "private") throw new S3Error("NoSuchBucketPolicy");
}
