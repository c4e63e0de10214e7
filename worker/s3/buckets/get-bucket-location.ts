import { xmlAnswer } from "../answer/xml.ts";
import { existing } from "../bucket-tree.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** An empty location is us-east-1, which every client knows. Signatures may name any region. */
const LOCATION = "";
/** What HeadBucket and CreateBucket say of it, from where newer clients take it. */
export const REGION_HEADER = { "x-amz-bucket-region": "us-east-1" };

/** The same for every bucket. The policy of a public branch allows it to everybody. */
export const getBucketLocation: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle({ tree }) {
    await existing(tree);
    return xmlAnswer("LocationConstraint", LOCATION);
  },
};
