import { xmlAnswer } from "../answer/xml.ts";
import { existing } from "../bucket-tree.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** On: every commit stays readable by its id. Of a view of the branch there are no versions. */
export const getBucketVersioning: Operation<BucketRequest> = {
  permission: "list",

  async handle({ tree, address }) {
    await existing(tree);
    return xmlAnswer("VersioningConfiguration", address.view === undefined ? { Status: "Enabled" } : {});
  },
};
