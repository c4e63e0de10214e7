import { existing } from "../bucket-tree.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** Whether a branch is there. */
export const headBucket: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle({ tree }) {
    await existing(tree);
    return new Response(null);
  },
};
