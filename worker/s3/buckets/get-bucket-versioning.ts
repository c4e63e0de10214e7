import { branchFailure } from "../answer/failures.ts";
import { xmlAnswer } from "../answer/xml.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** On: every commit stays readable by its id. Of an open commit there are no versions. */
export const getBucketVersioning: Operation<BucketRequest> = {
  permission: "list",
  query: ["versioning"],

  async handle({ tree, address }) {
    const status = await tree.status();
    if (!status.ok) throw branchFailure(status);
    return xmlAnswer("VersioningConfiguration", address.session === undefined ? { Status: "Enabled" } : {});
  },
};
