import { existing } from "../bucket-tree.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { REGION_HEADER } from "./get-bucket-location.ts";

/** Whether a branch is there, and in which region clients take it to be. */
export const headBucket: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle({ tree }) {
    await existing(tree);
    return new Response(null, { headers: REGION_HEADER });
  },
};
